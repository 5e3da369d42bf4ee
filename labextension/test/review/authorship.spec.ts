import { assistantLines, baseFor } from '../../src/review/authorship';
import { countLines } from '../../src/review/diff';
import type { IPendingCell } from '../../src/review/pending';

/** A cell that the assistant changed in these steps, `/` for line breaks. */
function cell(...steps: [string, string][]): IPendingCell {
  const lines = (text: string): string => text.replaceAll('/', '\n');
  const own = steps.map(([before, after]) => ({ before: lines(before), after: lines(after) }));
  return {
    notebook: 'n.ipynb',
    cell_id: 'c',
    sign: '~',
    base: own[0].before,
    steps: own,
    type: 'code',
    moved: false,
    turns: ['t'],
    conflict: null,
    above: [],
    below: []
  };
}

function base(pending: IPendingCell, now: string): string {
  return baseFor(pending, now.replaceAll('/', '\n')).replaceAll('\n', '/');
}

describe('baseFor', () => {
  it('is the text before, as long as nobody has edited it since', () => {
    expect(base(cell(['a/b', 'a/B']), 'a/B')).toBe('a/b');
  });

  it.each([
    ['above', 'a/b/c', 'a/B/c', 'mine/a/B/c', 'mine/a/b/c'],
    ['below', 'a/b/c', 'a/B/c', 'a/B/c/mine', 'a/b/c/mine'],
    ['right below what was added', 'a', 'a/new', 'a/new/mine', 'a/mine'],
    ['right above what was added', 'a', 'a/new', 'a/mine/new', 'a/mine'],
    ['in a line of its own', 'a/b/c', 'a/b/C', 'A/b/C', 'A/b/c'],
    ['by taking a line away', 'a/b/c', 'a/b/c/d', 'b/c/d', 'b/c'],
    ['below lines that were removed', 'a/b/c', 'c', 'c/mine', 'a/b/c/mine'],
    ['above lines that were added', 'a/b', 'x/y/a/b', 'x/y/a/mine/b', 'a/mine/b']
  ])('has what people edited since %s', (_, before, after, now, expected) => {
    expect(base(cell([before, after]), now)).toBe(expected);
  });

  it('leaves lines that both changed to the assistant', () => {
    expect(base(cell(['a/b', 'a/B']), 'a/B!')).toBe('a/b');
    expect(base(cell(['a', 'a/x/y']), 'a/x/mine/y')).toBe('a');
  });

  it('has what people edited between two changes, too', () => {
    expect(base(cell(['a/b', 'a/B'], ['mine/a/B', 'mine/a/B/c']), 'mine/a/B/c')).toBe('mine/a/b');
  });
});

describe('assistantLines', () => {
  it('are counted without the edits of people', () => {
    const pending = cell(['a/b', 'a/B'], ['mine/too/a/B', 'mine/too/a/B/c']);
    expect(countLines(assistantLines(pending))).toEqual({ added: 2, removed: 1 });
    expect(countLines(assistantLines(cell(['', 'x/y'])))).toEqual({ added: 2, removed: 0 });
  });
});
