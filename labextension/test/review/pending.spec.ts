import type { ICellState, IPendingChange } from '../../src/api/protocol';
import { byTurn, isBack, pendingCells, placesOf } from '../../src/review/pending';

function state(source: string, more: Partial<ICellState> = {}): ICellState {
  return { type: 'code', source, index: 0, outputs: [], execution_count: null, ...more };
}

function change(
  turn_id: string,
  cell_id: string,
  before: ICellState | null,
  after: ICellState | null,
  conflict: string | null = null
): IPendingChange {
  const kind = !before ? 'insert' : after ? 'update' : 'delete';
  const rest = { call_id: null, reviewed: false, undone: false };
  return { turn_id, notebook: 'n.ipynb', cell_id, kind, before, after, conflict, ...rest };
}

describe('pendingCells', () => {
  it('takes all changes of a cell together', () => {
    const cells = pendingCells([
      change('t1', 'a', state('1'), state('2')),
      change('t1', 'b', null, state('new')),
      change('t2', 'a', state('2'), state('3'), 'Somebody changed it.'),
      change('t2', 'b', state('new'), state('newer')),
      change('t2', 'c', state('gone'), null)
    ]);
    expect(cells.map(({ cell_id, sign, base, turns }) => [cell_id, sign, base, turns])).toEqual([
      ['a', '~', '1', ['t1', 't2']],
      ['b', '+', '', ['t1', 't2']],
      ['c', '−', 'gone', ['t2']]
    ]);
    expect(cells[0].conflict).toBe('Somebody changed it.');
  });

  it('forgets a cell that was added and is gone again', () => {
    const changes = [change('t', 'a', null, state('1')), change('t', 'a', state('1'), null)];
    expect(pendingCells(changes)).toEqual([]);
  });
});

describe('isBack', () => {
  const [edited] = pendingCells([change('t', 'a', state('1'), state('2'))]);

  it('tells a cell that is as it was before it was edited', () => {
    expect(isBack(edited, { type: 'code', source: '1' })).toBe(true);
    expect(isBack(edited, { type: 'code', source: '2' })).toBe(false);
    expect(isBack(edited, { type: 'markdown', source: '1' })).toBe(false);
  });

  it('is never so where a cell was moved or added', () => {
    const moved: IPendingChange = { ...change('t', 'a', state('1'), state('1')), kind: 'move' };
    const cells = pendingCells([moved, change('t', 'b', null, state(''))]);
    expect(cells.map(cell => isBack(cell, { type: 'code', source: cell.base }))).toEqual([
      false,
      false
    ]);
  });
});

describe('placesOf', () => {
  const gone = (id: string, above: string[], below: string[]): IPendingChange =>
    change('t', id, state(id, { above, below }), null);

  it('finds the nearest neighbour that is still there', () => {
    const removed = pendingCells([
      gone('x', ['a'], ['b']),
      gone('y', [], ['a']),
      gone('z', ['lost', 'b'], ['lost too', 'a']),
      gone('last', ['lost'], [])
    ]);
    const places = [...placesOf(removed, ['a', 'b'])].map(([id, cells]) => [
      id,
      cells.map(({ cell_id }) => cell_id)
    ]);
    expect(places).toEqual([
      ['a', ['x']],
      ['', ['y']],
      ['b', ['z', 'last']]
    ]);
  });
});

describe('byTurn', () => {
  it('asks for the last turn first, and only for what it did', () => {
    const cells = pendingCells([
      change('t1', 'a', state('1'), state('2')),
      change('t2', 'a', state('2'), state('3')),
      change('t2', 'b', state('1'), state('2'))
    ]);
    const named = (id: string): object => ({ notebook: 'n.ipynb', cell_id: id });
    expect([...byTurn(cells, ['t1', 't2'])]).toEqual([
      ['t2', [named('a'), named('b')]],
      ['t1', [named('a')]]
    ]);
    expect([...byTurn(cells, ['t1'])]).toEqual([['t1', [named('a')]]]);
  });
});
