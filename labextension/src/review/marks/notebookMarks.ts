import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { IPendingCell } from '../pending';
import { isBack, placesOf } from '../pending';
import type { Reviews } from '../reviews';
import type { IMarkServices } from './changeMark';
import { ChangeMark } from './changeMark';
import { element } from './element';
import { RemovedMark } from './removedMark';
import type { IWriting } from './writingPlaces';

/** What is marked in one open notebook: changed, added and removed cells, and where the assistant writes. */
export class NotebookMarks implements IDisposable {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _reviews: Reviews,
    private readonly _services: IMarkServices
  ) {
    const { content, context } = _panel;
    _panel.disposed.connect(this.dispose, this);
    context.pathChanged.connect(this.schedule, this);
    content.modelChanged.connect(this._onModelChanged, this);
    _reviews.changed.connect(this.schedule, this);
    this._onModelChanged();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      cancelAnimationFrame(this._frame);
      Signal.clearData(this);
    }
  }

  /** Show where the assistant is writing. */
  set writing(places: readonly IWriting[]) {
    const own = places.filter(({ notebook }) => notebook === this._panel.context.path);
    if (JSON.stringify(own) !== JSON.stringify(this._writing)) {
      this._writing = own;
      this.schedule();
    }
  }

  /** Bring the marks up to date with the next frame. */
  schedule(): void {
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      if (!this.isDisposed) {
        this._update();
      }
    });
  }

  private _onModelChanged(): void {
    this._panel.content.model?.cells.changed.connect(this.schedule, this);
    this.schedule();
  }

  private _update(): void {
    const { cells } = this._reviews.of(this._panel.context.path);
    const widgets = this._panel.content.widgets;
    const there = new Set(widgets.map(({ model }) => model.id));
    const changed = new Map(
      cells.filter(cell => cell.sign !== '−').map(cell => [cell.cell_id, cell])
    );
    const removed = cells.filter(cell => cell.sign === '−' && !there.has(cell.cell_id));
    this._markChanged(changed);
    this._markRemoved(removed);
    this._markWriting();
  }

  private _markChanged(changed: ReadonlyMap<string, IPendingCell>): void {
    const stale = new Set(this._changes.keys());
    this._panel.content.widgets.forEach((cell, index) => {
      const pending = changed.get(cell.model.id);
      if (!pending) {
        return;
      }
      this._follow(cell);
      const { type, sharedModel } = cell.model;
      if (!isBack(pending, { type, source: sharedModel.getSource() })) {
        const mark = this._changes.get(cell) ?? new ChangeMark(cell, this._services);
        this._changes.set(cell, mark);
        mark.show(pending, index + 1);
        stale.delete(cell);
      }
    });
    for (const cell of stale) {
      this._changes.get(cell)?.dispose();
      this._changes.delete(cell);
    }
  }

  private _markRemoved(removed: readonly IPendingCell[]): void {
    const { codeMimetype, widgets } = this._panel.content;
    for (const [id, mark] of this._removals) {
      if (!removed.some(({ cell_id }) => cell_id === id)) {
        mark.dispose();
        this._removals.delete(id);
      }
    }
    const ids = widgets.map(({ model }) => model.id);
    for (const [id, cells] of placesOf(removed, ids)) {
      const neighbour = widgets[Math.max(0, ids.indexOf(id))];
      for (const pending of cells) {
        const mark = this._removals.get(pending.cell_id) ?? new RemovedMark(this._services);
        this._removals.set(pending.cell_id, mark);
        mark.show(pending, pending.type === 'code' ? codeMimetype : 'text/x-ipythongfm');
        if (neighbour) {
          mark.place(neighbour, id ? 'below' : 'above');
          this._follow(neighbour);
        }
      }
    }
  }

  private _markWriting(): void {
    const { trans } = this._services;
    const { widgets } = this._panel.content;
    this._lines.splice(0).forEach(line => line.remove());
    for (const { cell_id, where } of this._writing) {
      const cell = cell_id ? widgets.find(({ model }) => model.id === cell_id) : widgets.at(-1);
      const words =
        where === 'in'
          ? trans.__('The assistant is writing…')
          : trans.__('The assistant is writing a cell here…');
      const line = element('div', { className: 'jp-Agent-writing', children: [words] });
      const input = cell?.node.querySelector(':scope > .jp-Cell-inputWrapper');
      if (where === 'in') {
        input?.after(line);
      } else if (where === 'above') {
        cell?.node.prepend(line);
      } else {
        cell?.node.append(line);
      }
      this._lines.push(line);
    }
  }

  /** JupyterLab makes a cell's content, and takes it out and in again, as one scrolls. */
  private _follow(cell: Cell): void {
    if (!this._followed.has(cell)) {
      this._followed.add(cell);
      cell.inViewportChanged.connect(this.schedule, this);
      cell.model.contentChanged.connect(this.schedule, this);
      void cell.ready.then(() => this.schedule());
    }
  }

  private readonly _changes = new Map<Cell, ChangeMark>();
  private readonly _removals = new Map<string, RemovedMark>();
  private readonly _lines: HTMLElement[] = [];
  private readonly _followed = new WeakSet<Cell>();
  private _writing: readonly IWriting[] = [];
  private _frame = 0;
  private _isDisposed = false;
}
