import { diffArrays } from 'diff';
import type { IDiffLine } from './diff';
import { diffLines } from './diff';
import type { IPendingCell } from './pending';

/** The lines from `from` to `to` of a text became `lines`, which start at line `start` of the new one. */
interface IChangedLines {
  from: number;
  to: number;
  start: number;
  lines: string[];
}

/** The lines that the assistant changed in a cell, regardless of people's edits before, in between and since. */
export function assistantLines({ steps }: IPendingCell): IDiffLine[] {
  const last = steps[steps.length - 1];
  return diffLines(baseAtLastStep(steps), last.after);
}

/**
 * The text to compare a cell with so that only the assistant's lines differ: the original with all edits by people
 * since. Lines that both changed stay the assistant's.
 */
export function baseFor({ steps }: IPendingCell, now: string): string {
  return withEdits(baseAtLastStep(steps), steps[steps.length - 1].after, now);
}

function baseAtLastStep(steps: IPendingCell['steps']): string {
  return steps.reduce(
    (base, { before }, index) => (index ? withEdits(base, steps[index - 1].after, before) : before),
    ''
  );
}

/** The text before a change from `base` to `after`, with the edits that led from `after` to `now`. */
function withEdits(base: string, after: string, now: string): string {
  const changed = hunks(base, after);
  const result = base.split('\n');
  for (const { from, to, lines } of hunks(after, now).toReversed()) {
    const endOf = ({ start, lines: own }: IChangedLines): number => start + own.length;
    if (!changed.some(hunk => hunk.start < to && from < endOf(hunk))) {
      const above = changed.findLast(hunk => endOf(hunk) <= from);
      const shift = above ? above.to - endOf(above) : 0;
      result.splice(from + shift, to - from, ...lines);
    }
  }
  return result.join('\n');
}

function hunks(old: string, now: string): IChangedLines[] {
  const found: IChangedLines[] = [];
  let [from, start] = [0, 0];
  let open: IChangedLines | null = null;
  for (const { value, added, removed } of diffArrays(old.split('\n'), now.split('\n'))) {
    if (!added && !removed) {
      [from, start, open] = [from + value.length, start + value.length, null];
      continue;
    }
    if (!open) {
      open = { from, to: from, start, lines: [] };
      found.push(open);
    }
    if (removed) {
      open.to = from += value.length;
    } else {
      open.lines.push(...value);
      start += value.length;
    }
  }
  return found;
}
