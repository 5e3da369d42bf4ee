import { YNotebook } from '@jupyter/ydoc';
import type { INotebookModel, Notebook } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { PageCells } from '../../src/bridge/pageCells';
import { StructuralEdits } from '../../src/bridge/structure';
import { guard } from '../../src/review/marks/element';

let keys = 0;

/** A page with code cells a, b and c, in which the user is somewhere. */
function open() {
  const shared = new YNotebook();
  shared.insertCells(
    0,
    ['a', 'b', 'c'].map(id => ({ id, cell_type: 'code', source: `of ${id}` }))
  );
  const view = {
    activeCell: null as { model: { id: string } } | null,
    activeCellIndex: -1,
    mode: 'command',
    widgets: [],
    node: document.createElement('div'),
    activate: () => undefined
  };
  const place = Object.assign(view, {
    activeCellChanged: new Signal<object, unknown>(view),
    stateChanged: new Signal<object, unknown>(view)
  });
  const model = { sharedModel: shared, dirty: false, cells: [] };
  const cells = new PageCells({
    model: () => model as unknown as INotebookModel,
    views: () => [view as unknown as Notebook],
    isServerRun: () => false
  });
  const edits = new StructuralEdits(cells);
  const ids = (): unknown[] => shared.cells.map(cell => cell.getId());
  const enter = (id: string, mode = 'edit'): void => {
    view.activeCell = { model: { id } };
    view.mode = mode;
    place.stateChanged.emit(undefined);
  };
  const edit = (kind: 'remove' | 'move' | 'retype', cell: string, more: object = {}) => {
    const key = String(keys++);
    return { key, operation: 'one', kind, cell, ...more };
  };
  return { shared, model, edits, ids, enter, edit, node: view.node };
}

const rest = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('StructuralEdits', () => {
  it('removes, moves and retypes, and the page has changes to save', () => {
    const { shared, model, edits, ids, edit } = open();
    expect(edits.carryOut(edit('remove', 'a', { source: 'of a' }))).toEqual({});
    expect(edits.carryOut(edit('move', 'c', { index: 0 }))).toEqual({});
    expect(edits.carryOut(edit('retype', 'b', { type: 'markdown' }))).toEqual({});
    expect(ids()).toEqual(['c', 'b']);
    expect(shared.cells.map(cell => cell.cell_type)).toEqual(['code', 'markdown']);
    expect(shared.cells.map(cell => cell.getSource())).toEqual(['of c', 'of b']);
    expect(model.dirty).toBe(true);
  });

  it('does an edit once, however often it is asked for', () => {
    const { edits, ids, edit } = open();
    const move = edit('move', 'a', { index: 2 });
    edits.carryOut(move);
    edits.carryOut(edit('move', 'a', { index: 0 }));
    expect(edits.carryOut(move)).toEqual({});
    expect(ids()).toEqual(['a', 'b', 'c']);
  });

  it('refuses what would take a cell from under the hands of the user', () => {
    const { shared, model, edits, ids, enter, edit } = open();
    enter('a');
    expect(edits.carryOut(edit('remove', 'a', { source: 'of a' }))).toEqual({ refused: 'typing' });
    expect(edits.carryOut(edit('retype', 'a', { type: 'raw' }))).toEqual({ refused: 'typing' });
    expect(edits.carryOut(edit('remove', 'b', { source: 'as read' }))).toEqual({
      refused: 'changed'
    });
    expect(edits.carryOut(edit('move', 'x', { index: 0 }))).toEqual({ refused: 'gone' });
    expect(ids()).toEqual(['a', 'b', 'c']);
    expect(model.dirty).toBe(false);
    expect(shared.cells[0].cell_type).toBe('code');
  });

  it('refuses it as well from the key on with which the user enters the cell', () => {
    const { edits, enter, edit, node } = open();
    enter('a', 'command');
    document.body.append(node);
    node.tabIndex = 0;
    node.focus();
    node.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    expect(edits.carryOut(edit('retype', 'a', { type: 'raw' }))).toEqual({ refused: 'typing' });
    expect(edits.carryOut(edit('retype', 'b', { type: 'raw' }))).toEqual({});
    edits.dispose();
  });

  it('does not take a key in a button of a mark for that', () => {
    const { edits, enter, edit, node } = open();
    enter('a', 'command');
    const undo = guard(document.createElement('button'));
    node.append(undo);
    document.body.append(node);
    undo.focus();
    undo.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    expect(edits.carryOut(edit('remove', 'a', { source: 'of a' }))).toEqual({});
    edits.dispose();
  });

  it('compares text as it is on the wire', () => {
    const { shared, edits, ids, edit } = open();
    shared.cells[0].setSource('half \ud83d');
    expect(edits.carryOut(edit('remove', 'a', { source: 'half \ufffd' }))).toEqual({});
    expect(ids()).toEqual(['b', 'c']);
  });

  it('moves the neighbours of the cell that the user is in', () => {
    const { shared, edits, ids, enter, edit } = open();
    const typedIn = shared.cells[0];
    enter('a');
    edits.carryOut(edit('move', 'a', { index: 2 }));
    expect(ids()).toEqual(['b', 'c', 'a']);
    expect(shared.cells[2]).toBe(typedIn);
  });

  it('takes back what it did, and never does what was withdrawn before it came', () => {
    const { shared, edits, ids, edit } = open();
    const done = [
      edit('remove', 'b', { source: 'of b' }),
      edit('move', 'c', { index: 0 }),
      edit('retype', 'a', { type: 'raw' })
    ];
    done.forEach(each => edits.carryOut(each));
    const late = edit('move', 'a', { index: 2 });
    edits.takeBack([...done.map(({ key }) => key), late.key]);
    expect(edits.carryOut(late)).toEqual({ refused: 'withdrawn' });
    expect(edits.carryOut(done[0])).toEqual({ refused: 'withdrawn' });
    expect(ids()).toEqual(['a', 'b', 'c']);
    expect(shared.cells[0].cell_type).toBe('code');
  });

  it('takes nothing back under the hands of the user until they have left the cell', async () => {
    const { shared, edits, enter, edit } = open();
    const retype = edit('retype', 'a', { type: 'markdown' });
    edits.carryOut(retype);
    enter('a');
    shared.cells[0].setSource('of a, and theirs');
    const typedIn = shared.cells[0];
    edits.takeBack([retype.key]);
    await rest();
    expect(shared.cells[0]).toBe(typedIn);
    enter('b');
    await rest();
    expect(shared.cells[0].cell_type).toBe('code');
    expect(shared.cells[0].getSource()).toBe('of a, and theirs');
  });

  it('leaves what the user undoes theirs', () => {
    const { shared, edits, ids, edit } = open();
    shared.clearUndoHistory();
    edits.carryOut(edit('move', 'c', { index: 0 }));
    expect(shared.canUndo()).toBe(false);
    expect(ids()).toEqual(['c', 'a', 'b']);
  });
});
