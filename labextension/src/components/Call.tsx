import { PathExt } from '@jupyterlab/coreutils';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { CallPart, IChange, IPlanStep, IRunOutput } from '../api/protocol';
import { runsOf } from '../api/toolRuns';
import type { IDiffLine } from '../review/diff';
import { diffLines } from '../review/diff';
import { describeCall, isAtWork } from '../wording/callDescriptions';
import { ownInput } from '../wording/serverTools';
import type { IInput } from '../wording/toolPhrases';
import { Code, Diff, LineCount } from './Code';
import { LongRun } from './LongRun';
import { Outputs } from './Outputs';
import { Review } from './Review';
import { useNotebookInFront, useSeconds, useServices } from './services';

interface ICallProps {
  call: CallPart;
  /** What the call changed, with the current state of each change. */
  changes: readonly IChange[];
  /** The notebook of the turn. */
  notebook: string | null;
  turnId: string;
  /** Whether it belongs to the answer in front, whose changes and outputs are shown. */
  recent: boolean;
  /** Whether the answer still grows. */
  running: boolean;
  /** Whether it stands behind a question about another call. */
  held: boolean;
  /** Whether the answer is about several notebooks, so that each call says which. */
  several: boolean;
}

/** One thing the assistant does, said in words, at its place in the answer. */
export const Call = React.memo(function Call(props: ICallProps) {
  const { call, changes, recent, held } = props;
  const { notebooks, trans } = useServices();
  const front = useNotebookInFront();
  const [chosen, setOpen] = React.useState<boolean | null>(null);
  const [details, setDetails] = React.useState(false);
  const live = isAtWork(call, held);
  const seconds = useSeconds(live);
  const notebook = notebookOf(call, changes, props.notebook);
  const locate = (cell_id: string): number | null =>
    notebook ? notebooks.position({ notebook, cell_id }) : null;
  const named = props.several || notebook !== front;
  const words = describeCall(call, changes, locate, trans, {
    held,
    notebook: named ? notebook : null
  });
  const cell = notebook && words.cellId ? { notebook, cell_id: words.cellId } : null;
  const lines = changedLines(call, changes);
  const { type } = ownInput(call) as IInput;
  const mimeType = notebooks.mimeType(notebook, words.cellId, type);
  const runs = runsOf(call.output);
  const { code: scratch, steps = [] } = ownOf(call);
  const shows = lines.length > 0 || steps.length > 0 || runs.some(run => run.outputs.length > 0);
  const waits = call.state === 'approval-requested'; // what it is about stands in the question below
  const open = chosen ?? (call.state === 'output-error' || (recent && shows && !waits));
  const Caret = open ? caretDownIcon : caretRightIcon;
  return (
    <div
      role="group"
      aria-label={words.text}
      className="jp-Agent-call"
      data-state={call.state}
      onMouseEnter={() => cell && notebooks.mark(cell, true)}
      onMouseLeave={() => cell && notebooks.mark(cell, false)}
    >
      <div className="jp-Agent-callHead">
        <button
          className="jp-Agent-callWords"
          aria-expanded={open}
          aria-busy={live}
          onClick={() => setOpen(!open)}
        >
          <Caret.react tag="span" className="jp-Agent-caret" />
          <span>{words.text}</span>
        </button>
        {!waits && <LineCount lines={lines} />}
        <span className="jp-Agent-note">
          {live && seconds > 1 ? trans.__('%1 s', seconds) : words.note}
        </span>
      </div>
      {!props.running && goingRuns(call, runs).map(runId => <LongRun key={runId} runId={runId} />)}
      {open && (
        <div className="jp-Agent-callBody">
          {lines.length > 0 && <Diff lines={lines} mimeType={mimeType} />}
          {scratch && <Code text={scratch} mimeType={mimeType} folded />}
          {steps.length > 0 && <Plan steps={steps} />}
          {runs.map(run => (
            <Outputs key={run.run_id} outputs={run.outputs} />
          ))}
          {call.state === 'output-error' && <p className="jp-Agent-fault">{call.errorText}</p>}
          <div className="jp-Agent-buttons">
            {!props.running && <Review turnId={props.turnId} changes={changes} />}
            {cell && locate(cell.cell_id) && (
              <button className="jp-Agent-link" onClick={() => void notebooks.reveal(cell)}>
                {trans.__('Go to cell')}
              </button>
            )}
            <button
              className="jp-Agent-link"
              aria-expanded={details}
              onClick={() => setDetails(!details)}
            >
              {trans.__('Details')}
            </button>
          </div>
          {details && <CallDetails call={call} />}
        </div>
      )}
    </div>
  );
});

/** The runs that had not ended when the call returned. */
function goingRuns(call: CallPart, runs: readonly IRunOutput[]): string[] {
  return call.state === 'output-available'
    ? runs
        .filter(({ status }) => status === 'running' || status === 'queued')
        .map(run => run.run_id)
    : [];
}

/** What a call has of its own to show: code that is in no cell, the steps of a plan. */
function ownOf({ toolName, state, input, output }: CallPart): {
  code?: string;
  steps?: IPlanStep[];
} {
  if (['run_code', 'code_execution'].includes(toolName) && state !== 'input-streaming') {
    const { code } = (input ?? {}) as { code?: unknown };
    return { code: typeof code === 'string' ? code : undefined };
  }
  const { steps } = (output ?? {}) as { steps?: unknown };
  return toolName === 'write_plan' && Array.isArray(steps) ? { steps: steps as IPlanStep[] } : {};
}

/** A plan, ticked off as far as it is done. */
function Plan({ steps }: { steps: readonly IPlanStep[] }): React.JSX.Element {
  const { trans } = useServices();
  return (
    <ul className="jp-Agent-plan" aria-label={trans.__('Plan')}>
      {steps.map(({ text, state = 'open' }, place) => (
        <li key={place} data-state={state} aria-current={state === 'doing' ? 'step' : undefined}>
          <input type="checkbox" checked={state === 'done'} readOnly disabled aria-label={text} />
          <span>{text}</span>
        </li>
      ))}
    </ul>
  );
}

/** What went to the tool and what came back, as the model has it. */
function CallDetails({ call }: { call: CallPart }): React.JSX.Element {
  const { trans } = useServices();
  const { text } = (call.output ?? {}) as Partial<IRunOutput>;
  return (
    <div className="jp-Agent-details">
      <p>{call.toolName}</p>
      <Code text={JSON.stringify(call.input, null, 2) ?? ''} mimeType="application/json" />
      {text && <p>{trans.__('What the assistant was told')}</p>}
      {text && <Code text={text} mimeType="text/plain" />}
    </div>
  );
}

interface IEditInput {
  notebook?: string;
  source?: string;
  old_string?: string;
  new_string?: string;
}

/** The notebook that a call is about: as the server resolved it, or as the model spells it; by default the turn's. */
export function notebookOf(
  call: CallPart,
  changes: readonly IChange[],
  home: string | null
): string | null {
  const resolved = changes[0]?.notebook ?? (call.output as IEditInput | undefined)?.notebook;
  const spelt = (ownInput(call) as IEditInput).notebook;
  return resolved ?? (spelt ? PathExt.normalize(spelt).replace(/^\//, '') : home);
}

/** What the call changed, or what it is about to write. */
function changedLines(call: CallPart, changes: readonly IChange[]): IDiffLine[] {
  const edits = changes.filter(({ kind }) => kind !== 'outputs' && kind !== 'move');
  if (edits.length) {
    return edits.flatMap(({ before, after }) =>
      diffLines(before?.source ?? '', after?.source ?? '')
    );
  }
  const { source, old_string, new_string } = ownInput(call) as IEditInput;
  return diffLines(old_string ?? '', new_string ?? source ?? '');
}
