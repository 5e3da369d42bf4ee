import { caretDownIcon, caretRightIcon, checkIcon, closeIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { CallPart, IChange } from '../api/protocol';
import { runsOf } from '../api/toolRuns';
import type { IFold, Section, ThinkingPart } from '../chat/answerSections';
import { newPlots } from '../chat/plots';
import { duration } from '../wording/callDescriptions';
import { summarizeWork } from '../wording/workSummary';
import { Boundary } from './Boundary';
import { Call, unfinishedRuns } from './Call';
import { LongRun } from './LongRun';
import { Markdown } from './Markdown';
import { useNotebookInFront, useSeconds, useServices } from './services';

const NONE: readonly IChange[] = [];
/** Number of plots with a thumbnail. */
const MAX_THUMBNAILS = 3;

/** Context shared by the calls of an answer. */
export interface IWorkContext {
  /** Changes by the call that made them, each with its current state. */
  changes: ReadonlyMap<string | null, readonly IChange[]>;
  /** The notebook of the turn. */
  notebook: string | null;
  turnId: string;
  /** Whether the answer concerns several notebooks, so that each call names its own. */
  several: boolean;
  /** Whether the answer is still growing. */
  running: boolean;
  /** The call that is being written or run; undefined while a question waits for the user. */
  current: CallPart | undefined;
  /** Parts of abandoned attempts. */
  abandoned: ReadonlySet<unknown>;
}

interface IWorkProps {
  parts: readonly (CallPart | ThinkingPart)[];
  context: IWorkContext;
}

/** The calls between two passages of an answer, one line each. */
export function Work({ parts, context }: IWorkProps): React.JSX.Element {
  const { trans } = useServices();
  const { abandoned, changes, current, ...rest } = context;
  const plan = parts.findLast(part => part.type === 'dynamic-tool' && isPlan(part));
  return (
    <div className="jp-Agent-work">
      {parts.map((part, index) => (
        <div key={index} className={abandoned.has(part) ? 'jp-Agent-abandoned' : undefined}>
          <Boundary trans={trans} of={part}>
            {part.type === 'reasoning' ? (
              <Thinking text={part.text} live={part.state === 'streaming'} />
            ) : (
              <Call
                call={part}
                changes={changes.get(part.toolCallId) ?? NONE}
                held={part !== current}
                isPlan={part === plan}
                notebook={rest.notebook}
                several={rest.several}
                turnId={rest.turnId}
                running={rest.running}
              />
            )}
          </Boundary>
        </div>
      ))}
    </div>
  );
}

interface IFoldedWorkProps {
  fold: IFold;
  context: IWorkContext;
  /** Duration of the turn; null if unknown, or if the answer has more such work. */
  seconds: number | null;
  renderSection: (section: Section, index: number) => React.ReactNode;
}

/** All work of a finished answer as one line, with new plots; unfolds to its steps. */
export function FoldedWork(props: IFoldedWorkProps): React.JSX.Element {
  const { fold, context, seconds, renderSection } = props;
  const { notebooks, trans } = useServices();
  useNotebookInFront(); // positions come from open notebooks
  const [open, setOpen] = React.useState(false);
  const { calls } = fold;
  const changes = calls.flatMap(call => context.changes.get(call.toolCallId) ?? NONE);
  const { notebook } = context;
  const locate = (cell_id: string): number | null =>
    notebook ? notebooks.position({ notebook, cell_id }) : null;
  const { text, fault } = summarizeWork(calls, changes, locate, trans);
  const Caret = open ? caretDownIcon : caretRightIcon;
  const Icon = calls.every(({ state }) => state === 'output-denied') ? closeIcon : checkIcon;
  const going = calls.flatMap(call => unfinishedRuns(call, runsOf(call.output)));
  return (
    <>
      <div className="jp-Agent-work">
        <button
          className="jp-Agent-callHead jp-Agent-foldHead"
          data-good={!fault && Icon === checkIcon}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <Icon.react tag="span" className="jp-Agent-stepIcon" />
          <span className="jp-Agent-callWords">{text}</span>
          <span className="jp-Agent-callResult">
            {fault && <span className="jp-Agent-faultNote">{fault}</span>}
            {seconds !== null && <span>{duration(seconds, trans)}</span>}
          </span>
          <Caret.react tag="span" className="jp-Agent-caret" />
        </button>
        {!open && going.map(runId => <LongRun key={runId} runId={runId} />)}
        {!open && <NewPlots changes={changes} />}
      </div>
      {open && <div className="jp-Agent-unfolded">{fold.sections.map(renderSection)}</div>}
    </>
  );
}

/** Thumbnails of new plots; a click shows the cell. */
function NewPlots({ changes }: { changes: readonly IChange[] }): React.JSX.Element | null {
  const { notebooks, trans } = useServices();
  const plots = React.useMemo(() => newPlots(changes), [changes]);
  if (!plots.length) {
    return null;
  }
  const more = plots.length - MAX_THUMBNAILS;
  return (
    <div className="jp-Agent-thumbnails">
      {plots.slice(0, MAX_THUMBNAILS).map((plot, index) => {
        const place = notebooks.position(plot);
        const name = place ? trans.__('Plot in cell %1', place) : trans.__('Plot');
        return (
          <button
            key={index}
            className="jp-Agent-thumbnail"
            title={trans.__('%1: show in the notebook', name)}
            onClick={() => void notebooks.reveal(plot)}
          >
            <img src={plot.url} alt={name} />
            {place && <span className="jp-Agent-note">{trans.__('cell %1', place)}</span>}
          </button>
        );
      })}
      {more > 0 && <span className="jp-Agent-note">{trans.__('+%1 more', more)}</span>}
    </div>
  );
}

/** The model's thinking: a line that unfolds. */
export function Thinking({ text, live }: { text: string; live: boolean }): React.JSX.Element {
  const { trans } = useServices();
  const [open, setOpen] = React.useState(false);
  const seconds = useSeconds(live);
  const Caret = open ? caretDownIcon : caretRightIcon;
  const thought = seconds > 0 ? trans.__('Thought for %1 s', seconds) : trans.__('Thought');
  return (
    <div className="jp-Agent-thinking">
      <button className="jp-Agent-callHead" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span className="jp-Agent-callWords">{live ? trans.__('Thinking…') : thought}</span>
        <Caret.react tag="span" className="jp-Agent-caret" />
      </button>
      {open && <Markdown text={text} />}
    </div>
  );
}

function isPlan({ toolName }: CallPart): boolean {
  return toolName === 'write_plan';
}
