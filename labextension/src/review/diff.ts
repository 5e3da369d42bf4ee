import { Change, diff } from '@codemirror/merge';
import { diffArrays, structuredPatch } from 'diff';

/** A line of a diff: unchanged, added, removed, or a gap between two places. */
export interface IDiffLine {
  sign: ' ' | '+' | '-' | '…';
  text: string;
  /** Number of empty lines that it stands for. */
  empty?: number;
}

/** Minimum number of consecutive empty lines to fold. */
export const MANY_EMPTY = 4;

/** Unchanged lines shown around each change. */
const CONTEXT = 2;

/** Lines `from` to `to` of a text became lines `start` to `end` of another one; counted from 0, ends not included. */
export interface IChangedLines {
  from: number;
  to: number;
  start: number;
  end: number;
}

/** Added and removed lines that are compared: more take too long for each key that is typed in the cell. */
const MOST_CHANGED = 1000;

/** The lines that differ: what cards count and notebooks show. */
export function changedLines(before: string, after: string): IChangedLines[] {
  const [old, now] = [before, after].map(text => text.split('\n'));
  const parts = diffArrays(old, now, { maxEditLength: MOST_CHANGED });
  if (!parts) {
    return [{ from: 0, to: old.length, start: 0, end: now.length }];
  }
  const found: IChangedLines[] = [];
  let [from, start] = [0, 0];
  let open: IChangedLines | null = null;
  for (const { count, added, removed } of parts) {
    if (!added && !removed) {
      [from, start, open] = [from + count, start + count, null];
      continue;
    }
    if (!open) {
      open = { from, to: from, start, end: start };
      found.push(open);
    }
    if (removed) {
      open.to = from += count;
    } else {
      open.end = start += count;
    }
  }
  return found;
}

/** The characters that differ, in these lines only: for editors, which compare characters alone. */
export function changedCharacters(before: string, after: string): Change[] {
  const [old, now] = [positionsOf(before), positionsOf(after)];
  return changedLines(before, after).flatMap(({ from, to, start, end }) => {
    const atEnd = from === to ? old[to] > before.length : start === end && now[end] > after.length;
    const shift = atEnd ? 1 : 0; // the break above the lines belongs to them then
    const [fromA, toA] = [old[from] - shift, old[to] - shift];
    const [fromB, toB] = [now[start] - shift, now[end] - shift];
    const changes = diff(before.slice(fromA, toA), after.slice(fromB, toB), { scanLimit: 500 });
    return changes.map(
      one => new Change(one.fromA + fromA, one.toA + fromA, one.fromB + fromB, one.toB + fromB)
    );
  });
}

/** Where each line starts, and one that would follow. */
function positionsOf(text: string): number[] {
  let position = 0;
  return [0, ...text.split('\n').map(line => (position += line.length + 1))];
}

/** The diff of two texts, by lines. */
export function diffLines(before: string, after: string): IDiffLine[] {
  const [old, now] = [before, after].map(text => (text ? text.split('\n') : []));
  return diffOf(old, now);
}

function diffOf(old: readonly string[], now: readonly string[]): IDiffLine[] {
  const [before, after] = [old, now].map(lines => lines.map(line => `${line}\n`).join(''));
  const { hunks } = structuredPatch('', '', before, after, '', '', { context: CONTEXT });
  return hunks.flatMap(({ lines }, index): IDiffLine[] => [
    ...(index ? [{ sign: '…' as const, text: '' }] : []),
    ...lines.map(line => ({ sign: line[0] as IDiffLine['sign'], text: line.slice(1) }))
  ]);
}

/** The lines of a unified diff of the server: compared again, so that a question shows the lines that its card will. */
export function parseDiff(diff: string): IDiffLine[] {
  const [head, ...hunks] = `\n${diff}`.split(/\n@@.*/);
  const shown = head.split('\n').filter(line => line && !/^(---|\+\+\+)/.test(line));
  const gap: IDiffLine[] = [{ sign: '…', text: '' }];
  const compared = hunks.map(hunk => {
    const lines = hunk.split('\n').slice(1);
    const side = (sign: string): string[] =>
      lines.filter(line => line[0] === ' ' || line[0] === sign).map(line => line.slice(1));
    return diffOf(side('-'), side('+'));
  });
  return [
    ...shown.map((text): IDiffLine => ({ sign: '…', text })),
    ...compared.flatMap((lines, index) => [...(index ? gap : []), ...lines])
  ];
}

/** The lines with many empty ones in a row as one, so that they do not push others out of view. */
export function foldEmpty(lines: readonly IDiffLine[]): IDiffLine[] {
  const folded: IDiffLine[] = [];
  for (let start = 0, end = 0; start < lines.length; start = end) {
    const { sign } = lines[start];
    end = start;
    while (lines[end]?.sign === sign && isEmpty(lines[end].text)) {
      end++;
    }
    end = Math.max(end, start + 1);
    const run = lines.slice(start, end);
    folded.push(...(run.length < MANY_EMPTY ? run : [{ sign, text: '', empty: run.length }]));
  }
  return folded;
}

/** How many lines were added and removed. */
export function countLines(lines: readonly IDiffLine[]): { added: number; removed: number } {
  return {
    added: lines.filter(line => line.sign === '+').length,
    removed: lines.filter(line => line.sign === '-').length
  };
}

/** Whether a line is blank; invisible characters count as content. */
export function isEmpty(line: string): boolean {
  return /^[ \t]*\n?$/.test(line);
}
