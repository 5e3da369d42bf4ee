import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { CallPart, IChange, IPlanStep, IRunOutput } from '../api/protocol';
import { isUnfinished, notRun, runsOf } from '../api/toolRuns';
import type { IDiffLine } from '../review/diff';
import { diffLines } from '../review/diff';
import { describeCall, isInProgress, notebookOf } from '../wording/callDescriptions';
import { ownInput } from '../wording/mcpTools';
import { Code, Diff, LineCount } from './Code';
import { stepIcon } from './icons';
import { LongRun } from './LongRun';
import { Runs, lastErrorLine } from './Outputs';
import { Review } from './Review';
import { useNotebookInFront, useSeconds, useServices, useTools } from './services';

interface ICallProps {
  call: CallPart;
  /** The changes by the call, with the current state of each. */
  changes: readonly IChange[];
  /** The notebook of the turn. */
  notebook: string | null;
  turnId: string;
  /** Whether the answer is still growing. */
  running: boolean;
  /** Whether other calls have to be done, or answered, before it. */
  held: boolean;
  /** Whether it is the newest plan, which is unfolded while the turn is running. */
  isPlan: boolean;
  /** Whether the answer concerns several notebooks, so that each call names its own. */
  several: boolean;
}

/** One call of the assistant, described in words, at its place in the answer. */
export const Call = React.memo(function Call(props: ICallProps) {
  const { call, changes, held, running } = props;
  const { notebooks, trans } = useServices();
  const tools = useTools();
  const front = useNotebookInFront();
  const [chosen, setOpen] = React.useState<boolean | null>(null);
  const live = isInProgress(call, held);
  const seconds = useSeconds(live);
  const notebook = notebookOf(call, changes, props.notebook);
  const locate = (cell_id: string): number | null =>
    notebook ? notebooks.position({ notebook, cell_id }) : null;
  const named = props.several || notebook !== front;
  const words = describeCall(call, changes, locate, tools, trans, {
    held,
    notebook: named ? notebook : null
  });
  const cell = notebook && words.cellId ? { notebook, cell_id: words.cellId } : null;
  const lines = changedLines(call, changes);
  const runs = runsOf(call.output);
  const streams = live && (lines.length > 0 || runs.some(run => run.outputs.length > 0));
  const open = chosen ?? (streams || (running && props.isPlan));
  const fault =
    call.state === 'output-error' ? call.errorText : lastErrorLine(runs) || notRun(call.output);
  const Caret = open ? caretDownIcon : caretRightIcon;
  const Icon = stepIcon(tools(call.toolName));
  return (
    <div
      role="group"
      aria-label={words.text}
      className="jp-Agent-call"
      data-state={call.state}
      data-failed={Boolean(fault)}
      onMouseEnter={() => cell && notebooks.mark(cell, true)}
      onMouseLeave={() => cell && notebooks.mark(cell, false)}
    >
      <button
        className="jp-Agent-callHead"
        aria-expanded={open}
        aria-busy={live}
        onClick={() => setOpen(!open)}
      >
        <Icon.react tag="span" className="jp-Agent-stepIcon" />
        <span className="jp-Agent-callWords">{words.text}</span>
        <span className="jp-Agent-callResult">
          {call.state !== 'approval-requested' && <LineCount lines={lines} />}
          {words.fault && <span className="jp-Agent-faultNote">{words.fault}</span>}
          {live && seconds > 1 ? (
            <span>{trans.__('%1 s', seconds)}</span>
          ) : (
            words.note && <span>{words.note}</span>
          )}
        </span>
        <Caret.react tag="span" className="jp-Agent-caret" />
      </button>
      {fault && !open && (
        <p className="jp-Agent-fault">
          <code>{fault}</code>
        </p>
      )}
      {!running && unfinishedRuns(call, runs).map(runId => <LongRun key={runId} runId={runId} />)}
      {open && (
        <CallBody
          call={call}
          changes={changes}
          lines={lines}
          notebook={notebook}
          cellId={words.cellId}
          turnId={running ? null : props.turnId}
        />
      )}
    </div>
  );
});

interface ICallBodyProps {
  call: CallPart;
  changes: readonly IChange[];
  lines: readonly IDiffLine[];
  notebook: string | null;
  cellId: string | null;
  /** The turn, once its changes can be decided on. */
  turnId: string | null;
}

/** The full effect of a call. */
function CallBody(props: ICallBodyProps): React.JSX.Element {
  const { call, changes, lines, notebook, cellId, turnId } = props;
  const { notebooks, trans } = useServices();
  const [details, setDetails] = React.useState(false);
  const { type } = ownInput(call) as { type?: string };
  const mimeType = notebooks.mimeType(notebook, cellId, type);
  const { code: scratch, steps = [] } = ownOf(call);
  const cell = notebook && cellId ? { notebook, cell_id: cellId } : null;
  const fault = call.state === 'output-error' ? call.errorText : notRun(call.output);
  return (
    <div className="jp-Agent-callBody">
      {lines.length > 0 && <Diff lines={lines} mimeType={mimeType} />}
      {scratch && <Code text={scratch} mimeType={mimeType} folded />}
      {steps.length > 0 && <Plan steps={steps} />}
      <Runs runs={runsOf(call.output)} notebook={notebook} />
      {fault && <p className="jp-Agent-fault">{fault}</p>}
      <div className="jp-Agent-buttons">
        {turnId !== null && <Review turnId={turnId} changes={changes} />}
        {cell && notebooks.position(cell) && (
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
  );
}

/** The runs that had not ended when the call returned. */
export function unfinishedRuns(call: CallPart, runs: readonly IRunOutput[]): string[] {
  return call.state === 'output-available' ? runs.filter(isUnfinished).map(run => run.run_id) : [];
}

/** Content of the call itself: code without a cell, the steps of a plan. */
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

/** A plan as a checklist. */
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

/** The tool's input and its result, as the model sees them. */
function CallDetails({ call }: { call: CallPart }): React.JSX.Element {
  const { trans } = useServices();
  const { text } = (call.output ?? {}) as Partial<IRunOutput>;
  return (
    <div className="jp-Agent-details">
      <p>{call.toolName}</p>
      <Code text={JSON.stringify(call.input, null, 2) ?? ''} mimeType="application/json" />
      {text && <p>{trans.__('Result for the model')}</p>}
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

/** The lines that the call changed, or is about to write. */
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
