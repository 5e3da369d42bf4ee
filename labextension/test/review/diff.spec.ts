import { Chunk } from '@codemirror/merge';
import { Text } from '@codemirror/state';
import {
  changedCharacters,
  changedLines,
  countLines,
  diffLines,
  foldEmpty,
  parseDiff
} from '../../src/review/diff';
import type { IDiffLine } from '../../src/review/diff';

describe('diffs', () => {
  it('shows what changed with a little around it', () => {
    const before = ['a', 'b', 'c', 'd', 'e', 'f'].join('\n');
    expect(diffLines(before, before.replace('d', 'D'))).toEqual([
      { sign: ' ', text: 'b' },
      { sign: ' ', text: 'c' },
      { sign: '-', text: 'd' },
      { sign: '+', text: 'D' },
      { sign: ' ', text: 'e' },
      { sign: ' ', text: 'f' }
    ]);
  });

  it('takes the last line for a line like any other', () => {
    expect(countLines(diffLines('a', 'a\nb'))).toEqual({ added: 1, removed: 0 });
    expect(countLines(diffLines('', 'a\nb'))).toEqual({ added: 2, removed: 0 });
    expect(diffLines('a', 'a')).toEqual([]);
  });

  it('reads the diffs of the server, also those of lines that look like heads', () => {
    const lines = parseDiff('type: code -> markdown\n@@ -1 +1,2 @@\n---x\n+++y\n+z');
    expect(lines).toEqual([
      { sign: '…', text: 'type: code -> markdown' },
      { sign: '-', text: '--x' },
      { sign: '+', text: '++y' },
      { sign: '+', text: 'z' }
    ]);
  });

  it('shows in a question the lines that its card will show', () => {
    const before = ['def f():', '    return 1', '', 'x = f()'];
    const after = ['def g():', '    return 2', '', 'def f():', '    return 1', '', 'x = f()'];
    const [old, now] = [before, after].map(lines => lines.join('\n'));
    const crude = [...before.map(line => `-${line}`), ...after.map(line => `+${line}`)];
    const shown = parseDiff(['@@ -1,4 +1,7 @@', ...crude].join('\n'));
    expect(shown).toEqual(diffLines(old, now));
    expect(countLines(shown)).toEqual({ added: 3, removed: 0 });
  });

  it('shows what the server says of a change without lines', () => {
    expect(parseDiff('type: code -> raw\n')).toEqual([{ sign: '…', text: 'type: code -> raw' }]);
    expect(parseDiff('move after b2')).toEqual([{ sign: '…', text: 'move after b2' }]);
  });
});

describe('changedCharacters', () => {
  const LINES = ['', 'a', 'b', 'ab = 1', 'return a'];
  const texts = Array.from({ length: 400 }, (_, seed) =>
    Array.from(
      { length: 1 + (seed % 6) },
      (_, at) => LINES[(seed * 7 + at * (seed % 11)) % 5]
    ).join('\n')
  );

  it('lead from one text to the other, and lie in the lines that differ', () => {
    texts.forEach((before, index) => {
      const after = texts[(index * 37 + 1) % texts.length];
      const changes = changedCharacters(before, after);
      const made = changes.reduceRight(
        (text, { fromA, toA, fromB, toB }) =>
          text.slice(0, fromA) + after.slice(fromB, toB) + text.slice(toA),
        before
      );
      expect(made).toBe(after);
      const lineOf = (at: number): number => after.slice(0, at).split('\n').length - 1;
      const differing = changedLines(before, after);
      for (const { fromB, toB } of changes.filter(change => change.toB > change.fromB)) {
        const [first, last] = [lineOf(fromB), lineOf(toB)];
        const isIn = differing.some(
          ({ start, end }) => start <= first + 1 && last <= Math.max(start, end)
        );
        expect(isIn).toBe(true);
      }
    });
  });

  it('let an editor show as many lines as a card counts', () => {
    const line = (n: number, by: number): string => `result_${n} = compute(x_${n * by}, ${n})`;
    const all = Array.from({ length: 400 }, (_, n) => n);
    const before = [...all.map(n => line(n, 1)), 'end'];
    const after = [...all.filter(n => n % 13 !== 12).map(n => line(n, n % 7 ? 1 : 5)), 'end'];
    const [old, now] = [before, after].map(lines => Text.of(lines));
    const chunks = Chunk.build(old, now, { override: changedCharacters });
    const count = (text: Text, ranges: [number, number][]): number =>
      ranges.reduce((sum, range) => sum + text.sliceString(...range).split('\n').length - 1, 0);
    const counted = countLines(diffLines(before.join('\n'), after.join('\n')));
    const removed = chunks.map(({ fromA, toA }): [number, number] => [fromA, toA]);
    const added = chunks.map(({ fromB, toB }): [number, number] => [fromB, toB]);
    expect([count(now, added), count(old, removed)]).toEqual([counted.added, counted.removed]);
  });
});

describe('many empty lines in a row', () => {
  it('are one line of a diff, which counts them', () => {
    const line = (sign: '+' | '-', text: string): IDiffLine => ({ sign, text });
    const empty = Array.from({ length: 60 }, () => line('+', ''));
    const three = [line('-', ''), line('-', ''), line('-', '')];
    const lines = [line('+', 'a'), ...empty, line('+', 'b'), ...three, line('-', 'c')];
    expect(foldEmpty(lines)).toEqual([
      { sign: '+', text: 'a' },
      { sign: '+', text: '', empty: 60 },
      { sign: '+', text: 'b' },
      { sign: '-', text: '' },
      { sign: '-', text: '' },
      { sign: '-', text: '' },
      { sign: '-', text: 'c' }
    ]);
  });
});
