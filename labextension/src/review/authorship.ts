import type { IDiffLine } from './diff';
import { changedLines, diffLines } from './diff';
import type { IPendingCell } from './pending';

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
  const changed = changedLines(base, after);
  const [result, lines] = [base, now].map(text => text.split('\n'));
  for (const { from, to, start, end } of changedLines(after, now).toReversed()) {
    if (!changed.some(own => own.start < to && from < own.end)) {
      const above = changed.findLast(own => own.end <= from);
      const shift = above ? above.to - above.end : 0;
      result.splice(from + shift, to - from, ...lines.slice(start, end));
    }
  }
  return result.join('\n');
}
