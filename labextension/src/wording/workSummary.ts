import type { TranslationBundle } from '@jupyterlab/translation';
import type { CallPart, ICellRef, IChange, IRunOutput } from '../api/protocol';
import { isUnfinished, runsOf } from '../api/toolRuns';
import { hasFailed, outcomeOf, ranWords, statusName } from './callDescriptions';
import type { Locate } from './cellNames';
import { ownInput } from './mcpTools';
import type { Input } from './toolPhrases';
import { namedCells } from './toolPhrases';

/** Summary of a piece of work. */
export interface IWorkSummary {
  /** "7 steps, 3 cells changed, ran 2–6, cell 7 still running" */
  text: string;
  /**
   * "error in cell 5" or "interrupted in cell 5", if the last run of a cell did not succeed; "1 step failed" for calls
   * that failed and did not succeed later.
   */
  fault: string;
}

/**
 * Summarize calls and their changes in one line.
 *
 * @param locate - Positions in the notebook of the turn; cells of other notebooks are only counted.
 */
export function summarizeWork(
  calls: readonly CallPart[],
  changes: readonly IChange[],
  locate: Locate,
  trans: TranslationBundle
): IWorkSummary {
  const edited = changes.filter(({ kind }) => kind !== 'outputs').map(keyOf);
  const cells = new Set(edited).size;
  const all = calls.flatMap(({ output }) => runsOf(output));
  const runs = [...new Map(all.map(run => [run.cell_id, run])).values()];
  const denied = calls.filter(({ state }) => state === 'output-denied').length;
  const text = [
    trans._n('1 step', '%1 steps', calls.length),
    cells > 0 && trans._n('1 cell changed', '%1 cells changed', cells),
    ranWords(runs, locate, trans),
    goingWords(runs, locate, trans),
    denied > 0 && trans._n('1 denied', '%1 denied', denied)
  ];
  const ended = runs.filter(run => !isUnfinished(run));
  const fault = [outcomeOf(ended, Infinity, locate, trans), failedWords(calls, trans)];
  return { text: text.filter(Boolean).join(', '), fault: fault.filter(Boolean).join(', ') };
}

/** Words for calls that failed, without those that succeeded when they were tried again. */
function failedWords(calls: readonly CallPart[], trans: TranslationBundle): string {
  const succeeded = new Set<string>();
  let count = 0;
  for (const call of calls.toReversed()) {
    const target = targetOf(call);
    if (!hasFailed(call)) {
      if (call.state === 'output-available') {
        succeeded.add(target);
      }
    } else if (!succeeded.has(target)) {
      count++;
    }
  }
  return count > 0 ? trans._n('1 step failed', '%1 steps failed', count) : '';
}

/** What a call was to do: the tool with the cells that the input names, or else with the whole input. */
function targetOf(call: CallPart): string {
  const { notebook, ...input } = ownInput(call) as Input;
  const cells = namedCells(input).toSorted();
  return JSON.stringify([call.toolName, cells.length ? { notebook, cells } : call.input]);
}

/** Words for runs that the calls did not wait for. */
function goingWords(runs: readonly IRunOutput[], locate: Locate, trans: TranslationBundle): string {
  const run = runs.find(isUnfinished);
  if (!run) {
    return '';
  }
  const name = statusName(run.status, trans);
  const place = run.cell_id ? locate(run.cell_id) : null;
  return place ? trans.__('cell %1 %2', place, name) : name;
}

function keyOf({ notebook, cell_id }: ICellRef): string {
  return `${notebook}\0${cell_id}`;
}
