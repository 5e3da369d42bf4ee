import type { YNotebook } from '@jupyter/ydoc';
import { MarkdownCell } from '@jupyterlab/cells';
import type { Cell } from '@jupyterlab/cells';
import type { INotebookModel, Notebook, NotebookMode } from '@jupyterlab/notebook';

type Editor = NonNullable<Cell['editor']>;

/** Where the user is in a view of a notebook. */
interface IUserPlace {
  view: Notebook;
  cell: Cell;
  id: string;
  mode: NotebookMode;
  /** Whether it has the keyboard focus. */
  hasFocus: boolean;
  selection: ReturnType<Editor['getSelection']> | null;
  /** For a Markdown cell whether it is rendered. */
  isRendered: boolean | null;
  /** The rendered Markdown cells next to it. */
  beside: MarkdownCell[];
}

/**
 * Keeps the user in their cell when someone else moves or retypes it in a collaboration room.
 *
 * Yjs cannot move, so the cell is replaced by a copy with the same id. JupyterLab 4.6 then makes the one above it the
 * active cell, and nothing has the focus: keys are lost, or are taken for commands.
 */
export function keepPlace(model: INotebookModel, views: () => Notebook[]): void {
  const { ydoc } = model.sharedModel as YNotebook;
  let places: IUserPlace[] = [];
  ydoc.on('beforeTransaction', ({ local }) => {
    places = local ? [] : views().flatMap(placeIn);
  });
  ydoc.on('afterTransaction', () => {
    const before = places;
    places = [];
    before.forEach(goBack);
  });
}

function placeIn(view: Notebook): IUserPlace[] {
  const { activeCell: cell, activeCellIndex: index, mode } = view;
  if (!cell) {
    return [];
  }
  const around = view.widgets.slice(Math.max(index - 1, 0), index + 2);
  return [
    {
      view,
      cell,
      id: cell.model.id,
      mode,
      hasFocus: view.node.contains(document.activeElement),
      selection: (mode === 'edit' && cell.editor?.getSelection()) || null,
      isRendered: cell instanceof MarkdownCell ? cell.rendered : null,
      beside: around.filter(one => one instanceof MarkdownCell).filter(one => one.rendered)
    }
  ];
}

function goBack(place: IUserPlace): void {
  const { view, mode, hasFocus } = place;
  const isGone = place.cell.isDisposed;
  const index = view.widgets.findIndex(one =>
    isGone ? one.model.id === place.id : one === place.cell
  );
  const cell = view.widgets[index];
  if (!cell || (cell === view.activeCell && !isGone)) {
    return; // deleted, or the user is still there
  }
  for (const one of place.beside.filter(({ isDisposed }) => !isDisposed)) {
    one.rendered = true; // JupyterLab went there in edit mode
  }
  view.activeCellIndex = index;
  view.mode = mode;
  if (cell instanceof MarkdownCell && place.isRendered !== null) {
    cell.rendered = place.isRendered;
  }
  const enter = (): void => {
    if (view.activeCell !== cell || view.mode !== mode) {
      return; // the user has moved on
    }
    if (isGone && place.selection) {
      cell.editor?.setSelection(place.selection);
    }
    if (hasFocus && mode === 'edit') {
      cell.editor?.focus();
    } else if (hasFocus) {
      view.activate();
    }
  };
  if (cell.editor) {
    enter();
  } else {
    void cell.ready.then(enter);
  }
}
