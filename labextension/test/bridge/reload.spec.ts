import { YNotebook } from '@jupyter/ydoc';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { INotebookModel, Notebook } from '@jupyterlab/notebook';
import { PageCells } from '../../src/bridge/pageCells';
import { takeIn } from '../../src/bridge/reload';

type Texts = Record<string, string>;

/** A notebook with these code cells, open. */
function open(texts: Texts, minor: number, typedIn?: string) {
  const shared = YNotebook.create({ data: {} });
  shared.fromJSON(content(texts, 5));
  shared.nbformat_minor = minor;
  const models = () => shared.cells.map(cell => ({ id: cell.id, sharedModel: cell }));
  const model = {
    dirty: false,
    sharedModel: shared,
    get cells() {
      return Object.assign(models(), { get: (at: number) => models()[at] });
    }
  } as unknown as INotebookModel;
  const view = {
    activeCell: { model: { id: typedIn } },
    mode: 'edit',
    node: document.body,
    widgets: []
  } as unknown as Notebook;
  const views = (): Notebook[] => (typedIn ? [view] : []);
  const cells = new PageCells({ model: () => model, views, isServerRun: () => false });
  const sources = (): Texts =>
    Object.fromEntries(shared.cells.map(({ id, source }) => [id, source]));
  return { shared, model, cells, sources };
}

function content(texts: Texts, minor: number): INotebookContent {
  const cells = Object.entries(texts).map(([id, source]) => ({
    ...(minor >= 5 && { id }),
    cell_type: 'code',
    source,
    metadata: {},
    outputs: [],
    execution_count: null
  }));
  return { nbformat: 4, nbformat_minor: minor, metadata: {}, cells };
}

describe.each([4, 5])('takeIn, format 4.%i', minor => {
  const BASE = { a: 'a = 1', b: 'b = 1', c: 'c = 1' };

  it('has what is new on both sides, and is ahead of the file by its own', () => {
    const { cells, model, shared, sources } = open(BASE, minor);
    const base = { content: content(BASE, minor), ids: cells.ids };
    shared.getCell(0).setSource('a = 2');
    shared.deleteCell(2);
    const file = content({ ...BASE, b: 'b = 2' }, minor);
    const taken = takeIn(cells, model, base, file, true);
    expect(sources()).toEqual({ a: 'a = 2', b: 'b = 2' });
    expect(taken).toEqual({ conflicts: [], ids: ['a', 'b', 'c'], isAhead: true });
  });

  it('knows the cells of the file again where the page has as many others', () => {
    const { cells, model, shared, sources } = open(BASE, minor);
    let base = { content: content(BASE, minor), ids: cells.ids };
    shared.deleteCell(0);
    shared.insertCell(2, { cell_type: 'code', id: 'mine', source: 'mine = 1' });
    const first = content({ ...BASE, b: 'b = 2' }, minor);
    const { ids } = takeIn(cells, model, base, first, true);
    base = { content: first, ids };
    const second = content({ a: 'a = 1', b: 'b = 3', c: 'c = 3' }, minor);
    expect(takeIn(cells, model, base, second, true).conflicts).toEqual([]);
    expect(sources()).toEqual({ b: 'b = 3', c: 'c = 3', mine: 'mine = 1' });
  });

  it('is not ahead of a file of which it took everything', () => {
    const { cells, model, sources } = open(BASE, minor);
    const base = { content: content(BASE, minor), ids: cells.ids };
    const file = content({ b: 'b = 1', a: 'a = 1\nx', n: 'new' }, minor);
    const taken = takeIn(cells, model, base, file, true);
    expect(taken.isAhead).toBe(false);
    expect(Object.values(sources())).toEqual(['b = 1', 'a = 1\nx', 'new']);
  });

  it.each([
    ['a', 'b', 'c', 'd'],
    ['d', 'a', 'b', 'c'],
    ['b', 'd', 'a', 'c'],
    ['d', 'c', 'b', 'a']
  ])('moves other cells around the one that is typed in: %s %s %s %s', (...order) => {
    const texts = { ...BASE, d: 'd = 1' };
    const { cells, model, sources } = open(texts, minor, 'd');
    const base = { content: content(texts, 5), ids: cells.ids };
    const typedIn = cells.at(3);
    const file = content(Object.fromEntries(order.map(id => [id, `${id} = 1`])), 5);
    takeIn(cells, model, base, file, true);
    expect(Object.keys(sources())).toEqual(order);
    expect(cells.at(cells.index('d'))).toBe(typedIn);
  });

  it('leaves the cell that is typed in its type, and says that the file is another', () => {
    const { cells, model, shared } = open(BASE, minor, 'b');
    const base = { content: content(BASE, 5), ids: cells.ids };
    const file = content(BASE, 5);
    file.cells[1] = { ...file.cells[1], cell_type: 'markdown', source: '# b' };
    const typedIn = cells.at(1);
    const taken = takeIn(cells, model, base, file, true);
    expect(cells.at(1)).toBe(typedIn);
    expect(shared.cells[1].source).toBe('# b');
    expect(taken.isAhead).toBe(true);
  });

  it('leaves what it does not change as it is, and the undo history without it', () => {
    const { cells, model, shared, sources } = open(BASE, minor);
    const base = { content: content(BASE, minor), ids: cells.ids };
    shared.clearUndoHistory();
    const kept = shared.getCell(1);
    shared.getCell(0).updateSource(5, 5, ' # mine');
    takeIn(cells, model, base, content({ ...BASE, c: 'c = 1\nc = 2' }, minor), true);
    expect(shared.getCell(1)).toBe(kept);
    shared.undo();
    expect(sources()).toEqual({ a: 'a = 1', b: 'b = 1', c: 'c = 1\nc = 2' });
  });
});
