import { assignIds, mergeCells, mergeText } from '../../src/bridge/merge';
import type { IMergeCell } from '../../src/tokens';

/** Code cells from their texts by id. */
function cells(texts: Record<string, string>, more: Partial<IMergeCell> = {}): IMergeCell[] {
  return Object.entries(texts).map(([id, source]) => ({
    id,
    cell_type: 'code',
    source,
    metadata: {},
    outputs: [],
    execution_count: null,
    ...more
  }));
}

function texts(merged: readonly IMergeCell[]): Record<string, string> {
  return Object.fromEntries(merged.map(({ id, source }) => [id, source]));
}

describe('mergeText', () => {
  it.each([
    ['only mine', 'a', 'b', 'a', 'b'],
    ['only theirs', 'a', 'a', 'b', 'b'],
    ['both alike', 'a', 'b', 'b', 'b'],
    ['other lines', 'a\nb\nc', 'A\nb\nc', 'a\nb\nC', 'A\nb\nC'],
    ['lines added at one place', 'a', 'a\nmine', 'a\ntheirs', 'a\nmine\ntheirs'],
    ['a line deleted and one added', 'a\nb\nc', 'b\nc', 'a\nb\nc\nd', 'b\nc\nd'],
    ['the same lines', 'a\nb', 'A\nb', 'α\nb', null],
    ['a deleted line that the other changed', 'a\nb', 'b', 'A\nb', null],
    ['an empty cell that both filled', '', 'mine', 'theirs', null]
  ])('%s', (_, base, mine, theirs, merged) => {
    expect(mergeText(base, mine, theirs)).toBe(merged);
  });

  it('tells a difference without a base', () => {
    expect(mergeText(undefined, 'a', 'a')).toBe('a');
    expect(mergeText(undefined, 'a', 'b')).toBeNull();
  });
});

describe('mergeCells', () => {
  const base = cells({ a: 'a', b: 'b', c: 'c' });

  it('has the changes of both', () => {
    const mine = cells({ a: 'a1', b: 'b', mine: '+', c: 'c' });
    const theirs = cells({ a: 'a', b: 'b2', theirs: '-', c: 'c' });
    const { cells: merged, conflicts } = mergeCells(base, mine, theirs);
    expect(texts(merged)).toEqual({ a: 'a1', b: 'b2', mine: '+', theirs: '-', c: 'c' });
    expect(conflicts).toEqual([]);
  });

  it('deletes what one side deleted and the other left alone', () => {
    const { cells: merged, conflicts } = mergeCells(
      base,
      cells({ a: 'a', c: 'c' }),
      cells({ b: 'b', c: 'c' })
    );
    expect(texts(merged)).toEqual({ c: 'c' });
    expect(conflicts).toEqual([]);
  });

  it('keeps mine and tells where both changed the same, or one deleted what the other changed', () => {
    const theirs = cells({ a: 'a2', b: 'b2' });
    const { cells: merged, conflicts } = mergeCells(base, cells({ a: 'a1', c: 'c1' }), theirs);
    expect(texts(merged)).toEqual({ a: 'a1', c: 'c1' });
    expect(conflicts).toEqual([
      { cell: 'a', mine: 'a1', theirs: theirs[0] },
      { cell: 'c', mine: 'c1', theirs: null },
      { cell: 'b', mine: null, theirs: theirs[1] }
    ]);
  });

  it.each([
    ['theirs', { a: 'a', b: 'b', c: 'c' }, { c: 'c', a: 'a', b: 'b' }, ['c', 'a', 'b']],
    ['mine', { b: 'b', a: 'a', c: 'c' }, { a: 'a', b: 'b', c: 'c' }, ['b', 'a', 'c']],
    ['mine of both', { b: 'b', a: 'a', c: 'c' }, { c: 'c', a: 'a', b: 'b' }, ['b', 'a', 'c']],
    [
      'with what is new',
      { a: 'a', n: 'n', b: 'b', c: 'c' },
      { c: 'c', a: 'a', b: 'b' },
      ['c', 'a', 'n', 'b']
    ]
  ])('takes the order of %s', (_, mine, theirs, order) => {
    const { cells: merged } = mergeCells(base, cells(mine), cells(theirs));
    expect(merged.map(({ id }) => id)).toEqual(order);
  });

  it('takes the outputs of the side that ran it, with the trust that they have there', () => {
    const output = { output_type: 'stream', name: 'stdout', text: 'ran' };
    const trusting = cells({ a: 'a' }, { metadata: { trusted: true } });
    const ran = cells({ a: 'a' }, { outputs: [output], execution_count: 3 });
    const [theirs] = mergeCells(base, trusting, ran).cells;
    expect(theirs).toMatchObject({ outputs: [output], execution_count: 3 });
    expect(theirs.metadata.trusted).not.toBe(true);
    const [mine] = mergeCells(base, ran, cells({ a: 'a' })).cells;
    expect(mine).toMatchObject({ outputs: [output], execution_count: 3 });
  });

  it('merges metadata key by key, and takes a new type', () => {
    const mine = cells({ a: 'a' }, { metadata: { tags: ['x'], old: 1 } });
    const theirs = cells({ a: 'a' }, { metadata: { old: 1, name: 'n' }, cell_type: 'markdown' });
    const was = cells({ a: 'a' }, { metadata: { old: 1 } });
    const [cell] = mergeCells(was, mine, theirs).cells;
    expect(cell).toMatchObject({
      cell_type: 'markdown',
      metadata: { tags: ['x'], name: 'n', old: 1 }
    });
  });

  it('deletes nothing and tells every difference without a base', () => {
    const { cells: merged, conflicts } = mergeCells(
      null,
      cells({ a: 'a1', b: 'b' }),
      cells({ a: 'a2', c: 'c' })
    );
    expect(texts(merged)).toEqual({ a: 'a1', b: 'b', c: 'c' });
    expect(conflicts.map(({ cell }) => cell)).toEqual(['a']);
  });

  it('only tells what the file alone changed where that is not to be taken', () => {
    const { cells: merged, conflicts } = mergeCells(base, base, cells({ a: 'a2', b: 'b' }), false);
    expect(texts(merged)).toEqual({ a: 'a', b: 'b', c: 'c' });
    expect(conflicts.map(({ cell }) => cell)).toEqual(['a', 'c']);
  });

  it('is no slower than the notebook is long', () => {
    const many = Object.fromEntries(
      Array.from({ length: 10_000 }, (_, n) => [`c${n}`, `x = ${n}`])
    );
    const { cells: merged } = mergeCells(
      cells(many),
      cells({ mine: '', ...many }),
      cells({ ...many, theirs: '' })
    );
    expect(merged).toHaveLength(10_002);
  });
});

describe('assignIds', () => {
  it.each([
    ['unchanged', ['x', 'y', 'z'], ['a', 'b', 'c']],
    ['one changed', ['x', 'y2', 'z'], ['a', 'b', 'c']],
    ['one inserted', ['x', 'new', 'y', 'z'], ['a', 'new', 'b', 'c']],
    ['one deleted', ['x', 'z'], ['a', 'c']],
    ['the last changed and one more', ['x', 'y', 'z2', 'w'], ['a', 'b', 'c', 'new']]
  ])('finds the cells of a format without ids: %s', (_, sources, ids) => {
    const known = cells({ a: 'x', b: 'y', c: 'z' });
    const file = sources.map(source => ({ cell_type: 'code', source, metadata: {} }));
    const found = assignIds(file, known, () => 'new');
    expect(found.map(({ id }) => id)).toEqual(ids);
  });

  it.each([
    ['of Windows', 'a\r\nb\r\n\r\nC', 'A\nb\n\nC'],
    ['with more of the same', 'a\r\r\nb\n\nC', 'A\nb\n\nC'],
    ['of an old Mac, which is one character', 'a\rb\r', null]
  ])('takes no line end for a change: those %s', (_, source, merged) => {
    const known = cells({ a: 'a\nb\n\nc' });
    const file = assignIds([{ cell_type: 'code', source, metadata: {}, id: 'a' }], known, () => '');
    expect(mergeText(known[0].source, 'A\nb\n\nc', file[0].source)).toBe(merged);
  });
});
