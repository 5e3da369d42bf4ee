import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { AgentPart, CallPart, IChange, IEndedRun, IRunOutput } from '../api/protocol';
import { isUnfinished, notRun, runsOf } from '../api/toolRuns';
import { legible } from './oddCharacters';
import { ownInput } from './mcpTools';
import type { Locate } from './cellNames';
import { placesOf, ranges } from './cellNames';
import type { FindTool, IFilling, Input, Phrase } from './toolPhrases';
import { countOf, namedCells, phrase, summaryOf, wordsFor } from './toolPhrases';

/** A call in plain words. */
export interface IWords {
  /** "Cell 5 edited", "Running cell 5…"; "Run cell 5" if it was not run. */
  text: string;
  /** Text at the end of the line: a duration, an outcome. */
  note: string;
  /** The error, shown before the note. */
  fault: string;
  /** The cell that the call concerns, if there is one. */
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

/** Whether this call is being written or run, and not one before it. */
export function isInProgress(call: CallPart, held: boolean): boolean {
  const started = call.state !== 'input-available' && call.state !== 'approval-responded';
  return isLive(call) && (started || !held);
}

/** The current call: the one being written, then the calls in order. */
export function currentCall(parts: readonly AgentPart[]): CallPart | undefined {
  const live = parts.filter(part => part.type === 'dynamic-tool').filter(isLive);
  return live.findLast(({ state }) => state === 'input-streaming') ?? live[0];
}

interface ICallContext {
  /** Whether other calls have to be done, or answered, before it. */
  held?: boolean;
  /** Its notebook, if it is to be named. */
  notebook?: string | null;
}

/** Describe what a call does, did, or would do. */
export function describeCall(
  call: CallPart,
  changes: readonly IChange[],
  locate: Locate,
  tools: FindTool,
  trans: TranslationBundle,
  { held = false, notebook = null }: ICallContext = {}
): IWords {
  const input = ownInput(call) as Input;
  const runs = runsOf(call.output);
  const edits = changes.filter(({ kind }) => kind !== 'outputs');
  const named = namedCells(input);
  const cellId = changes[0]?.cell_id ?? (named.length === 1 ? named[0] : null);
  const { toolName: name, output } = call;
  const filling = {
    input,
    changed: edits.map(({ cell_id }) => cell_id),
    ran: runs.flatMap(({ cell_id }) => cell_id ?? []),
    notebook: notebook && legible(notebook)
  };
  const place = withDeleted(edits, locate);
  const fill = (how: IFilling): Phrase => phrase(name, how, place, tools, trans);
  const [todo, doing] = fill(filling);
  const words = (text: string, note = '', fault = ''): IWords => ({ text, note, fault, cellId });
  const going = runs.every(isUnfinished) ? runs[0]?.status : undefined;
  const ended = runs.filter(run => !isUnfinished(run)).length;
  const written = Math.max(named.length, countOf(wordsFor(tools(name), input), input));
  const partly = input.run === true && ended < written; // text is not run
  const ran = partly && ranWords(runs, locate, trans);
  switch (call.state) {
    case 'approval-requested':
      return words(todo, trans.__('needs approval'));
    case 'output-denied':
      return words(todo, trans.__('denied'));
    case 'output-error':
      return words(todo, '', trans.__('failed'));
    default:
      if (isLive(call)) {
        return words(
          isInProgress(call, held)
            ? trans.__('%1…', withRunning(doing, output, locate, trans))
            : todo
        );
      }
      if (going && tools(name)?.effect === 'run') {
        return words(going === 'queued' ? todo : doing, statusName(going, trans));
      }
      return words(
        fill(partly ? { ...filling, input: { ...input, run: false } } : filling)[2],
        summaryOf(output, trans) || [ran, courseOf(runs, locate, trans)].filter(Boolean).join(', '),
        faultOf(call, runs, locate, trans)
      );
  }
}

/** "ran 2–6": the cells whose runs have ended. */
export function ranWords(
  runs: readonly IRunOutput[],
  locate: Locate,
  trans: TranslationBundle
): string {
  const ids = runs.filter(run => !isUnfinished(run)).flatMap(({ cell_id }) => cell_id ?? []);
  if (!ids.length) {
    return '';
  }
  const places = placesOf(ids, locate);
  return places
    ? trans.__('ran %1', ranges(places))
    : trans._n('ran 1 cell', 'ran %1 cells', ids.length);
}

/** What went wrong in a call that has ended. */
function faultOf(
  call: CallPart,
  runs: readonly IRunOutput[],
  locate: Locate,
  trans: TranslationBundle
): string {
  if (hasFailed(call)) {
    return trans.__('failed');
  }
  const ended = runs.filter(run => !isUnfinished(run));
  const outcome = outcomeOf(ended, runs.length, locate, trans);
  if (outcome || !notRun(call.output)) {
    return outcome;
  }
  return runs.length ? trans.__('not all run') : trans.__('not run');
}

/** Whether a call failed without an outcome of its own. */
export function hasFailed({ state, output }: CallPart): boolean {
  return state === 'output-error' || isUnsaid(output);
}

/** Whether a result is not good, and was stored by a version that did not say what it came to. */
function isUnsaid(output: unknown): boolean {
  const { ok, summary } = (output ?? {}) as { ok?: unknown; summary?: unknown };
  return ok === false && summary === undefined;
}

/** Also finds the places that deleted cells had. */
function withDeleted(changes: readonly IChange[], locate: Locate): Locate {
  const places = new Map(
    changes.flatMap(({ kind, cell_id, before }): [string, number][] =>
      kind === 'delete' && before ? [[cell_id, before.index + 1]] : []
    )
  );
  return id => places.get(id) ?? locate(id);
}

/** "Checking the notebook, cell 3" */
function withRunning(
  doing: string,
  output: unknown,
  locate: Locate,
  trans: TranslationBundle
): string {
  const { running } = (output ?? {}) as { running?: string };
  const place = running ? locate(running) : null;
  return place ? trans.__('%1, cell %2', doing, place) : doing;
}

/** "4.2 s", "2 min 5 s"; empty for a very short time. */
export function duration(seconds: number, trans: TranslationBundle): string {
  if (seconds < 0.05) {
    return '';
  }
  if (seconds < 60) {
    return trans.__('%1 s', seconds < 10 ? seconds.toFixed(1) : Math.round(seconds));
  }
  return trans.__('%1 min %2 s', Math.floor(seconds / 60), Math.round(seconds % 60));
}

interface INamesNotebook {
  notebook?: string;
}

/** The notebook of a call: as resolved by the server, or as spelled by the model; by default the turn's. */
export function notebookOf(
  call: CallPart,
  changes: readonly IChange[],
  home: string | null
): string | null {
  const resolved = changes[0]?.notebook ?? (call.output as INamesNotebook | undefined)?.notebook;
  const spelt = (ownInput(call) as INamesNotebook).notebook;
  return resolved ?? (spelt ? PathExt.normalize(spelt).replace(/^\//, '') : home);
}

/** "Running cell 5, 12 s", for a running clock. */
export function withSeconds(text: string, seconds: number, trans: TranslationBundle): string {
  return seconds > 0 ? trans.__('%1, %2', text, wholeSeconds(seconds, trans)) : text;
}

function wholeSeconds(seconds: number, trans: TranslationBundle): string {
  return seconds < 60 ? trans.__('%1 s', seconds) : duration(seconds, trans);
}

/** "Sonnet 5.5" for `anthropic:claude-sonnet-5-5`; other models by their makers' names. */
export function modelName(model: string): string {
  const name = model.replace(/^[^:]*:/, '');
  if (model.startsWith('demo:')) {
    return 'Demo';
  }
  const [, kind, version] = /^claude-([a-z]+)-([\d-]+)$/.exec(name) ?? [];
  return kind ? `${titleCase(kind)} ${version.replaceAll('-', '.')}` : name;
}

/** "Anthropic". */
export function titleCase(name: string): string {
  return name === 'openai' ? 'OpenAI' : name.charAt(0).toUpperCase() + name.slice(1);
}

/** A sentence from the server with cell positions instead of ids: "cell `b2`" becomes "cell 3". */
export function withPositions(text: string, locate: Locate, trans: TranslationBundle): string {
  return text.replace(/(cell )`([^`]+)`/gi, (all, word: string, id: string) => {
    const position = locate(id);
    return position === null ? all : word + trans.__('%1', position);
  });
}

/** "Cell 3 finished: ok, 5 min 2 s", for a run that ended after its turn. */
export function endOfRun(run: IEndedRun, locate: Locate, trans: TranslationBundle): string {
  const ended = run.status === 'ok' ? trans.__('ok') : statusName(run.status, trans);
  const how = [ended, duration(run.seconds, trans)].filter(Boolean).join(', ');
  const place = run.cell_id && locate(run.cell_id);
  if (place) {
    return trans.__('Cell %1 finished: %2', place, how);
  }
  return run.cell_id ? trans.__('A cell finished: %1', how) : trans.__('A run finished: %1', how);
}

/** Total duration of runs, in seconds. */
export function secondsOf(runs: readonly IRunOutput[]): number {
  return runs.reduce((sum, run) => sum + (run.seconds ?? 0), 0);
}

/** "still running in cell 5, 12 s" */
function courseOf(runs: readonly IRunOutput[], locate: Locate, trans: TranslationBundle): string {
  const going = outcomeOf(runs.filter(isUnfinished), runs.length, locate, trans);
  return [going, duration(secondsOf(runs), trans)].filter(Boolean).join(', ');
}

/** "error in cell 5", for the first run that did not succeed; without the cell if there is only one run. */
export function outcomeOf(
  runs: readonly IRunOutput[],
  among: number,
  locate: Locate,
  trans: TranslationBundle
): string {
  const run = runs.find(({ status }) => status !== 'ok');
  if (!run) {
    return '';
  }
  const name = statusName(run.status, trans);
  const place = among > 1 && run.cell_id ? locate(run.cell_id) : null;
  return place ? trans.__('%1 in cell %2', name, place) : name;
}

/** "error", "still running" */
export function statusName(status: string, trans: TranslationBundle): string {
  const names: Record<string, string> = {
    queued: trans.__('queued'),
    running: trans.__('still running'),
    error: trans.__('error'),
    timeout: trans.__('took too long'),
    interrupted: trans.__('interrupted'),
    died: trans.__('the kernel died'),
    restarted: trans.__('the kernel was restarted'),
    deleted: trans.__('the cell was deleted')
  };
  return names[status] ?? status;
}
