import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { ChangeWalk } from '../changeWalk';
import type { IPendingCell } from '../pending';
import { placesOf } from '../pending';
import type { Reviews } from '../reviews';
import type { IMarkServices } from './changeMark';
import { ChangeMark } from './changeMark';
import { element } from './element';
import { Pill } from './pill';
import { RemovedMark } from './removedMark';
import type { IWriting } from './writingPlaces';

export interface INotebookMarkServices extends IMarkServices {
  reviews: Reviews;
  walk: ChangeWalk;
}

/** The marks in one open notebook: changed, added and removed cells, and where the assistant is writing. */
export class NotebookMarks implements IDisposable {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _services: INotebookMarkServices
  ) {
    const { reviews, walk } = _services;
    this._pill = new Pill(_panel, walk, _services);
    const { content, context } = _panel;
    _panel.disposed.connect(this.dispose, this);
    context.pathChanged.connect(this.schedule, this);
    content.modelChanged.connect(this._onModelChanged, this);
    reviews.changed.connect(this.schedule, this);
    walk.changed.connect(this.schedule, this);
    walk.revealed.connect(this._onRevealed, this);
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

  /** Whether diffs are shown by default. */
  set open(open: boolean) {
    this._isOpen = open;
    this.schedule();
  }

  /** Update the marks in the next frame. */
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
    const { path } = this._panel.context;
    const shown = this._services.walk.of(path);
    this._services.reviews.of(path).cells.forEach(({ cell_id }) => this._followCell(cell_id));
    this._markChanged(new Map(shown.map(cell => [cell.cell_id, cell])));
    this._markRemoved(shown.filter(({ sign }) => sign === '−'));
    this._markWriting();
    this._pill.show(shown);
    this._panel.toggleClass('jp-Agent-reviewing', shown.length > 0);
  }

  private _markChanged(changed: ReadonlyMap<string, IPendingCell>): void {
    const stale = new Set(this._changes.keys());
    const { current } = this._services.walk.state;
    this._panel.content.widgets.forEach((cell, index) => {
      const pending = changed.get(cell.model.id);
      if (pending && pending.sign !== '−') {
        const mark = this._changes.get(cell) ?? new ChangeMark(cell, this._services);
        this._changes.set(cell, mark);
        mark.show(pending, index + 1, this._isOpen);
        mark.current = pending === current;
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
        mark.current = pending === this._services.walk.state.current;
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

  private _onRevealed(_: ChangeWalk, { notebook, cell_id }: IPendingCell): void {
    if (notebook === this._panel.context.path) {
      this._removals.get(cell_id)?.reveal();
    }
  }

  private _followCell(cellId: string): void {
    const cell = this._panel.content.widgets.find(({ model }) => model.id === cellId);
    if (cell) {
      this._follow(cell);
    }
  }

  /** Follow a cell's content, which JupyterLab creates, removes and re-adds during scrolling. */
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
  private readonly _pill: Pill;
  private _isOpen = true;
  private _frame = 0;
  private _isDisposed = false;
}
