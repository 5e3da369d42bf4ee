import { structuredPatch } from 'diff';

/** A line of a diff: unchanged, added, removed, or a gap between two places. */
export interface IDiffLine {
  sign: ' ' | '+' | '-' | '…';
  text: string;
}

/** Unchanged lines shown around each change. */
const CONTEXT = 2;

/** What changed between two texts, line by line. */
export function diffLines(before: string, after: string): IDiffLine[] {
  const [old, now] = [before, after].map(text => text && `${text}\n`); // a last line is a line like any other
  const { hunks } = structuredPatch('', '', old, now, '', '', { context: CONTEXT });
  return parseDiff(hunks.flatMap(hunk => ['@@', ...hunk.lines]).join('\n'));
}

/** The lines of a unified diff, without its heads. */
export function parseDiff(diff: string): IDiffLine[] {
  const lines = diff.split('\n');
  const start = lines.findIndex(line => line.startsWith('@@'));
  const shown = lines.slice(0, Math.max(start, 0)).filter(line => !/^(---|\+\+\+)/.test(line));
  const result: IDiffLine[] = shown.map(text => ({ sign: '…', text }));
  for (const line of lines.slice(start + 1)) {
    const sign = line[0];
    if (sign === '@') {
      result.push({ sign: '…', text: '' });
    } else if (sign === ' ' || sign === '+' || sign === '-') {
      result.push({ sign, text: line.slice(1) });
    }
  }
  return result;
}

/** How many lines were added and removed. */
export function countLines(lines: readonly IDiffLine[]): { added: number; removed: number } {
  return {
    added: lines.filter(line => line.sign === '+').length,
    removed: lines.filter(line => line.sign === '-').length
  };
}
