import { Signal } from '@lumino/signaling';
import { RenamingPage } from '../renames';
import { FileConflicts } from '../../src/review/fileConflicts';
import type { ICellConflict, IMergeCell, ITabBridge } from '../../src/tokens';

type Conflicts = { notebook: string; cells: readonly ICellConflict[] };

/** A page that reports conflicts, and the file texts of those that are open. */
function open() {
  const bridge = { client: 'c' } as ITabBridge;
  const conflicted = new Signal<ITabBridge, Conflicts>(bridge);
  const page = new RenamingPage();
  Object.assign(bridge, { conflicted });
  const conflicts = new FileConflicts(bridge, page.renames, 'key');
  return {
    tell: (cell: string, theirs: string | null, notebook = 'a.ipynb') =>
      conflicted.emit({
        notebook,
        cells: [{ cell, mine: 'mine', theirs: theirs === null ? null : inFile(cell, theirs) }]
      }),
    rename: (former: string, notebook: string) => page.renameOpen(former, notebook),
    get texts() {
      return conflicts.state.map(
        ({ notebook, cell, theirs }) => `${notebook} ${cell} ${theirs?.source ?? 'deleted'}`
      );
    }
  };
}

function inFile(id: string, source: string): IMergeCell {
  return { id, source, cell_type: 'code', metadata: {} };
}

describe('FileConflicts', () => {
  beforeEach(() => localStorage.clear());

  it('asks about a cell once where the file says the same again', () => {
    const page = open();
    page.tell('c', 'one');
    page.tell('c', 'one');
    expect(page.texts).toEqual(['a.ipynb c one']);
  });

  it('keeps a text of the file that is nowhere else, whatever comes after it', () => {
    const page = open();
    page.tell('c', 'one');
    page.tell('c', 'two');
    page.tell('c', null);
    expect(page.texts).toEqual(['a.ipynb c one', 'a.ipynb c two', 'a.ipynb c deleted']);
  });

  it('does not ask whether to delete a cell that the file has again', () => {
    const page = open();
    page.tell('c', null);
    page.tell('c', 'one');
    expect(page.texts).toEqual(['a.ipynb c one']);
  });

  it('tells the cells of two notebooks apart, and follows a rename', () => {
    const page = open();
    page.tell('c', null);
    page.tell('c', null, 'b.ipynb');
    page.rename('b.ipynb', 'd.ipynb');
    expect(page.texts).toEqual(['a.ipynb c deleted', 'd.ipynb c deleted']);
  });

  it('knows what another page has found or settled', () => {
    const [page, other] = [open(), open()];
    page.tell('c', 'one');
    window.dispatchEvent(new StorageEvent('storage', { key: 'key' }));
    other.tell('d', 'two');
    window.dispatchEvent(new StorageEvent('storage', { key: 'key' }));
    expect(page.texts).toEqual(['a.ipynb c one', 'a.ipynb d two']);
  });

  it('outlives the page', () => {
    open().tell('c', 'one');
    expect(open().texts).toEqual(['a.ipynb c one']);
  });
});
