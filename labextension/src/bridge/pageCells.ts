import type { YNotebook } from '@jupyter/ydoc';
import type { Cell } from '@jupyterlab/cells';
import { MarkdownCell, isCodeCellModel } from '@jupyterlab/cells';
import type { INotebookModel, Notebook } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import { diffLines } from 'diff';
import * as Y from 'yjs';
import { replacement } from './cellText';

export type SharedCell = Y.Map<unknown>;

/** An open notebook. */
export interface IPage {
  model: () => INotebookModel;
  /** All views of the notebook in this page. */
  views: () => Notebook[];
  /** Whether the cell shows a run of the server. */
  isServerRun: (id: string) => boolean;
}

/** Milliseconds after Enter during which JupyterLab may not have entered the cell yet. */
export const ENTERING = 1000;
const OF_CODE = ['outputs', 'execution_count', 'execution_state'];

/** The cells of an open notebook, and where the user is in them. */
export class PageCells implements IDisposable {
  constructor(private readonly _page: IPage) {
    document.addEventListener('keydown', this._onKey, true);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    document.removeEventListener('keydown', this._onKey, true);
  }

  get length(): number {
    return this._cells.length;
  }

  at(index: number): SharedCell {
    return this._cells.get(index);
  }

  views(): Notebook[] {
    return this._page.views();
  }

  /** Set the cell's text by minimal changes: a cursor in unchanged text does not move. */
  write(index: number, text: string): void {
    const source = this.at(index).get('source') as Y.Text;
    const parts = diffLines(source.toJSON(), text);
    this._ydoc.transact(() => {
      let place = 0;
      parts.forEach(({ added, removed, value }, at) => {
        const next = parts[at + 1];
        if (removed && next?.added) {
          replaceWithin(source, place, value, next.value);
          place += next.value.length;
        } else if (removed) {
          source.delete(place, value.length);
        } else if (added && !parts[at - 1]?.removed) {
          source.insert(place, value);
          place += value.length;
        } else if (!added) {
          place += value.length;
        }
      });
    }, this);
  }

  /** In two transactions: JupyterLab 4.6 loses the active cell when one inserts and deletes cells. */
  replace(from: number, copy: SharedCell, to: number): void {
    const id = this.idAt(from);
    const views = this._page.views();
    const before = views.map(view => widgetOf(view, id));
    const rendered = before.map(cell => cell instanceof MarkdownCell && cell.rendered);
    const selected = before.map((cell, at) => from === to && !!cell && views[at].isSelected(cell));
    this.insert(to, copy);
    this.remove(from + (to <= from ? 1 : 0));
    views.forEach((view, at) => {
      const cell = widgetOf(view, id);
      if (cell instanceof MarkdownCell && before[at] instanceof MarkdownCell) {
        cell.rendered = rendered[at];
      }
      if (cell && selected[at]) {
        view.select(cell); // without it the selection would have a gap, and Shift Down would do nothing
      }
    });
  }

  /** With our own transaction origin: sent to the server, and not undone by the user's Ctrl-Z. */
  insert(index: number, cell: SharedCell): void {
    this._ydoc.transact(() => this._cells.insert(index, [cell]), this);
  }

  remove(index: number): void {
    this._ydoc.transact(() => this._cells.delete(index), this);
  }

  /** Do `work` without changing the active cell and focus in any view. */
  preservingPlace<T>(work: () => T): T {
    const places = this._page.views().map(view => ({
      view,
      id: view.activeCell?.model.id,
      hasFocus: view.node.contains(document.activeElement)
    }));
    const before = this._cells.toArray();
    const result = work();
    const now = this._cells.toArray();
    if (before.length === now.length && before.every((cell, at) => cell === now[at])) {
      return result; // refused
    }
    this._page.model().dirty = true;
    for (const { view, id, hasFocus } of places) {
      if (id && view.activeCell?.model.id !== id) {
        const index = view.widgets.findIndex(({ model }) => model.id === id);
        if (index >= 0) {
          view.activeCellIndex = index;
        }
      }
      if (hasFocus && !view.node.contains(document.activeElement)) {
        view.activate();
      }
    }
    return result;
  }

  isActive(id: string): boolean {
    return this._page.views().some(({ activeCell }) => activeCell?.model.id === id);
  }

  /** Whether the user is editing the cell, or has just pressed the key to edit it. */
  isTypedIn(id: string): boolean {
    const isEntering = performance.now() - this._entered < ENTERING;
    return this._page
      .views()
      .some(
        ({ activeCell, mode, node }) =>
          activeCell?.model.id === id &&
          (mode === 'edit' || (isEntering && node.contains(document.activeElement)))
      );
  }

  isTheUsersRun(id: string): boolean {
    const model = [...this._page.model().cells].find(cell => cell.id === id);
    return (
      !!model &&
      isCodeCellModel(model) &&
      model.executionState === 'running' &&
      !this._page.isServerRun(id)
    );
  }

  above(id: string | null): number {
    const index = id === null ? -1 : this.index(id);
    return index < 0 ? this._cells.length : index;
  }

  index(id: string): number {
    return this.ids.indexOf(id);
  }

  idAt(index: number): string | null {
    return this.ids[index] ?? null;
  }

  get ids(): string[] {
    return this._cells.map(cell => cell.get('id') as string);
  }

  private readonly _onKey = (event: KeyboardEvent): void => {
    const { key, altKey, ctrlKey, metaKey, shiftKey, target } = event;
    const isHere =
      target instanceof Element &&
      !target.closest('[data-lm-suppress-shortcuts]') &&
      this._page.views().some(({ node }) => node.contains(target));
    if (isHere && key === 'Enter' && !altKey && !ctrlKey && !metaKey && !shiftKey) {
      this._entered = performance.now();
    }
  };

  /** Looked up each time: shared types become invalid at a revert. */
  private get _cells(): Y.Array<SharedCell> {
    return this._ydoc.getArray<SharedCell>('cells');
  }

  private get _ydoc(): Y.Doc {
    return (this._page.model().sharedModel as YNotebook).ydoc;
  }

  private _entered = -Infinity;
  private _isDisposed = false;
}

/** A copy of the cell with that type, without type-specific fields and without trust, which was for other outputs. */
export function ofType(cell: SharedCell, type: string): SharedCell {
  const copy = cell.clone();
  for (const key of type === 'code' ? [...OF_CODE, 'attachments'] : OF_CODE) {
    copy.delete(key);
  }
  copy.set('cell_type', type);
  const metadata = (cell.get('metadata') as SharedCell).clone();
  metadata.delete('trusted');
  copy.set('metadata', metadata);
  if (type === 'code') {
    copy.set('outputs', new Y.Array<unknown>());
    copy.set('execution_count', null);
    copy.set('execution_state', 'idle');
  }
  return copy;
}

/** The text as the server sees it: half a surrogate pair is sent as a replacement character. */
export function onTheWire(cell: SharedCell): string {
  const bytes = new TextEncoder().encode((cell.get('source') as Y.Text).toJSON());
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** Replace `before`, which is at that position, by `after`, without touching their common start and end. */
function replaceWithin(source: Y.Text, place: number, before: string, after: string): void {
  const { start, end, text } = replacement(before, after);
  source.insert(place + end, text);
  source.delete(place + start, end - start);
}

function widgetOf(view: Notebook, id: string | null): Cell | undefined {
  return view.widgets.find(({ model }) => model.id === id);
}
