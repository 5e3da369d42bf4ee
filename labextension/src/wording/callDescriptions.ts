import type { TranslationBundle } from '@jupyterlab/translation';
import type {
  AgentPart,
  CallPart,
  IApproval,
  IChange,
  IEndedRun,
  IPlanStep,
  IRunOutput
} from '../api/protocol';
import { runsOf } from '../api/toolRuns';
import { legible } from './oddCharacters';
import { ownInput } from './serverTools';
import type { IInput, Locate } from './toolPhrases';
import { phrase } from './toolPhrases';

/** A call in the words of a colleague. */
export interface IWords {
  /** "Edited cell 5", "Running cell 5…"; "Run cell 5" if it was not run. */
  text: string;
  /** What to say at the end of the line: a duration, an outcome. */
  note: string;
  /** The cell that it is about, if it is about one. */
  cellId: string | null;
}

/** Whether a call has not ended. */
export function isLive({ state, ...call }: CallPart): boolean {
  const preliminary = 'preliminary' in call && call.preliminary === true;
  return (
    state === 'input-streaming' ||
    state === 'input-available' ||
    state === 'approval-responded' ||
    (state === 'output-available' && preliminary)
  );
}

/** Whether it is this call that is being written or run, and not one before it. */
export function isAtWork(call: CallPart, held: boolean): boolean {
  const started = call.state !== 'input-available' && call.state !== 'approval-responded';
  return isLive(call) && (started || !held);
}

/** The call whose turn it is: the one that is being written, then one after the other. */
export function currentCall(parts: readonly AgentPart[]): CallPart | undefined {
  const live = parts.filter(part => part.type === 'dynamic-tool').filter(isLive);
  return live.findLast(({ state }) => state === 'input-streaming') ?? live[0];
}

interface ICallContext {
  /** Whether others have to be done, or answered, before it. */
  held?: boolean;
  /** Its notebook, where that is to be named. */
  notebook?: string | null;
}

/** Say what a call does, did, or would do. */
export function describeCall(
  call: CallPart,
  changes: readonly IChange[],
  locate: Locate,
  trans: TranslationBundle,
  { held = false, notebook = null }: ICallContext = {}
): IWords {
  const input = ownInput(call) as IInput;
  const runs = runsOf(call.output);
  const cellId = changes[0]?.cell_id ?? input.cell_id ?? null;
  const cell = nameOf(cellId, changes[0], locate, trans);
  const { toolName: tool, output } = call;
  const [todo, doing, done] = phrase({
    tool,
    input,
    runs,
    output,
    cell,
    notebook: notebook && legible(notebook),
    locate,
    trans
  });
  switch (call.state) {
    case 'approval-requested':
      return { text: todo, note: trans.__('waiting for you'), cellId };
    case 'output-denied':
      return { text: todo, note: trans.__('not allowed'), cellId };
    case 'output-error':
      return { text: todo, note: trans.__('failed'), cellId };
    default:
      return isLive(call)
        ? { text: isAtWork(call, held) ? trans.__('%1…', doing) : todo, note: '', cellId }
        : {
            text: done,
            note: seen(call, trans) ?? ticked(call, trans) ?? outcome(runs, trans),
            cellId
          };
  }
}

/** "Run cell 7", `named` with its notebook: what would happen; characters that do not show are spelt out. */
export function describeQuestion(
  { tool, input, cell_id, notebook }: IApproval,
  locate: Locate,
  trans: TranslationBundle,
  named = false
): string {
  const cell = nameOf(cell_id, undefined, locate, trans);
  const where = named ? notebook : null;
  const [todo] = phrase({ tool, input, runs: [], cell, notebook: where, locate, trans });
  return legible(todo);
}

/** "Edit and run cell 7": what would happen if all of these, which are one question, are allowed. */
export function describeQuestions(
  approvals: readonly IApproval[],
  locate: Locate,
  trans: TranslationBundle,
  named = false
): string {
  const [first] = approvals;
  if (approvals.length === 1) {
    return describeQuestion(first, locate, trans, named);
  }
  const notebooks = new Set(approvals.flatMap(({ notebook }) => notebook ?? []));
  const words = together(approvals, locate, trans);
  return named ? legible(trans.__('%1 in %2', words, [...notebooks].join(', '))) : words;
}

function together(
  approvals: readonly IApproval[],
  locate: Locate,
  trans: TranslationBundle
): string {
  const [first] = approvals;
  const edits = approvals.filter(isEdit);
  if (edits.length === approvals.length) {
    return trans._n('Make 1 change', 'Make %1 changes', edits.length);
  }
  if (new Set(approvals.map(({ notebook, cell_id }) => `${notebook}\0${cell_id}`)).size === 1) {
    return trans.__('Edit and run %1', nameOf(first.cell_id, undefined, locate, trans));
  }
  return trans._n('Make 1 change and run', 'Make %1 changes and run', edits.length);
}

/** Tools that change cells, some of which run them afterwards. */
const EDITS = [
  'create_cell',
  'create_cells',
  'update_cell',
  'edit_cells',
  'delete_cell',
  'move_cell',
  'create_notebook'
];

/** Whether a question is about a change of cells, and not about running something. */
export function isEdit({ tool }: IApproval): boolean {
  return EDITS.includes(tool);
}

/** "4.2 s", "2 min 5 s". */
export function duration(seconds: number, trans: TranslationBundle): string {
  if (seconds < 60) {
    return trans.__('%1 s', seconds < 10 ? seconds.toFixed(1) : Math.round(seconds));
  }
  return trans.__('%1 min %2 s', Math.floor(seconds / 60), Math.round(seconds % 60));
}

/** "Sonnet 5.5" for `anthropic:claude-sonnet-5-5`; other models by the names that their makers use. */
export function modelName(model: string): string {
  const name = model.replace(/^[^:]*:/, '');
  const [, kind, version] = /^claude-([a-z]+)-([\d-]+)$/.exec(name) ?? [];
  return kind ? `${titleCase(kind)} ${version.replaceAll('-', '.')}` : name;
}

/** "Anthropic". */
export function titleCase(name: string): string {
  return name === 'openai' ? 'OpenAI' : name.charAt(0).toUpperCase() + name.slice(1);
}

/** A sentence of the server with cells by their positions: "cell `b2`" becomes "cell 3". */
export function withPositions(text: string, locate: Locate, trans: TranslationBundle): string {
  return text.replace(/(cell )`([^`]+)`/gi, (all, word: string, id: string) => {
    const position = locate(id);
    return position === null ? all : word + trans.__('%1', position);
  });
}

function nameOf(
  cellId: string | null,
  change: IChange | undefined,
  locate: Locate,
  trans: TranslationBundle
): string {
  const index = change?.kind === 'delete' ? change.before?.index : undefined;
  const position = index === undefined ? cellId && locate(cellId) : index + 1;
  return position ? trans.__('cell %1', position) : trans.__('a cell');
}

/** "12 cells", of a notebook that was read. */
function seen({ toolName, output }: CallPart, trans: TranslationBundle): string | null {
  const { cells } = (output ?? {}) as { cells?: unknown };
  return toolName === 'get_notebook_state' && typeof cells === 'number'
    ? trans._n('1 cell', '%1 cells', cells)
    : null;
}

/** "2 of 4 done", of a plan. */
function ticked({ toolName, output }: CallPart, trans: TranslationBundle): string | null {
  const { steps } = (output ?? {}) as { steps?: IPlanStep[] };
  if (toolName !== 'write_plan' || !Array.isArray(steps)) {
    return null;
  }
  const done = steps.filter(({ state }) => state === 'done').length;
  return trans.__('%1 of %2 done', done, steps.length);
}

/** "Cell 3 finished: 5 min 2 s  ok", of a run that ended after its turn. */
export function endOfRun(run: IEndedRun, locate: Locate, trans: TranslationBundle): string {
  const how = outcome([{ ...run, text: '', execution_count: null, outputs: [] }], trans);
  const place = run.cell_id && locate(run.cell_id);
  if (place) {
    return trans.__('Cell %1 finished: %2', place, how);
  }
  return run.cell_id ? trans.__('A cell finished: %1', how) : trans.__('A run finished: %1', how);
}

function outcome(runs: readonly IRunOutput[], trans: TranslationBundle): string {
  const ended = (runs.find(run => run.status !== 'ok') ?? runs[0])?.status;
  const took = runs.reduce((sum, run) => sum + (run.seconds ?? 0), 0);
  const words: Record<string, string> = {
    queued: trans.__('queued'),
    running: trans.__('still running'),
    ok: trans.__('ok'),
    error: trans.__('error'),
    timeout: trans.__('took too long'),
    interrupted: trans.__('interrupted'),
    died: trans.__('the kernel died'),
    restarted: trans.__('the kernel was restarted'),
    deleted: trans.__('the cell was deleted')
  };
  const outcome = ended && (words[ended] ?? ended);
  return [took >= 0.05 && duration(took, trans), outcome].filter(Boolean).join('  ');
}
