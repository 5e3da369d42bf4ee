import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { ICellRef } from '../api/protocol';
import type { NotebookCode } from '../bridge/notebookCode';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import { Store } from '../store';
import type { IPendingCell } from './pending';
import { isBack, placesOf } from './pending';
import type { Reviews } from './reviews';

export interface IChangeWalk {
  /** The changed cells to review, notebook by notebook and from top to bottom. */
  readonly cells: readonly IPendingCell[];
  /** The change the user is looking at; null if none yet. */
  readonly current: IPendingCell | null;
}

/** Moves the user from change to change. A cell that is back to its original state no longer counts. */
export class ChangeWalk extends Store<IChangeWalk> {
  /** @param _open - Opens a notebook of the server; resolves when its cells have loaded. */
  constructor(
    private readonly _reviews: Reviews,
    private readonly _notebooks: OpenNotebooks,
    private readonly _code: NotebookCode,
    private readonly _open: (notebook: string) => Promise<void>
  ) {
    super({ cells: [], current: null });
    _reviews.changed.connect(this._update, this);
    _code.edited.connect(this._onEdited, this);
    _code.opened.connect(this._update, this);
    _notebooks.moved.connect(this._onMoved, this);
  }

  /** Emitted with a change that was scrolled into view. */
  get revealed(): ISignal<this, IPendingCell> {
    return this._revealed;
  }

  /** The changes in one notebook. */
  of(notebook: string): readonly IPendingCell[] {
    return this.state.cells.filter(cell => cell.notebook === notebook);
  }

  /** Move to the next or previous change; wraps around. */
  async go(step: 1 | -1): Promise<void> {
    this._update();
    const { cells, current } = this.state;
    if (cells.length) {
      const index = current
        ? (cells.indexOf(current) + step + cells.length) % cells.length
        : this._nearest(step);
      await this.reveal(cells[index]);
    }
  }

  /** Bring a change into view and make its cell the active one; opens the notebook if it is not open here. */
  async reveal(cell: IPendingCell): Promise<void> {
    this.update({ current: cell });
    if (!this._code.ids(cell.notebook)) {
      await this._open(cell.notebook);
    }
    const beside = this._beside(cell);
    this._active = beside.cell_id;
    await this._notebooks.reveal(beside);
    if (this.state.current === cell) {
      this._revealed.emit(cell); // JupyterLab may take a while to lay out a distant cell: the user may have moved on
    }
  }

  /** The cell itself; for a deleted one the neighbour at which it is shown. */
  private _beside(cell: IPendingCell): ICellRef {
    const { notebook, cell_id, sign } = cell;
    if (sign !== '−') {
      return { notebook, cell_id };
    }
    const ids = this._code.ids(notebook) ?? [];
    const [place] = placesOf([cell], ids).keys();
    return { notebook, cell_id: place || ids[0] };
  }

  private _onEdited(_: NotebookCode, notebook: string): void {
    if (this._reviews.of(notebook).cells.length) {
      this._frame ||= requestAnimationFrame(() => this._update());
    }
  }

  private _update(): void {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    const before = this.state;
    const cells = [...this._reviews.state.keys()].flatMap(notebook => this._shown(notebook));
    const follower = cells[Math.min(before.cells.indexOf(before.current!), cells.length - 1)];
    const current = before.current
      ? (cells.find(cell => isSame(cell, before.current!)) ?? follower ?? null)
      : null;
    const isNew =
      cells.length !== before.cells.length || cells.some((cell, at) => cell !== before.cells[at]);
    if (isNew || current !== before.current) {
      this.set({ cells, current });
    }
  }

  /** The visible changes of a notebook, from top to bottom. */
  private _shown(notebook: string): IPendingCell[] {
    const { cells } = this._reviews.of(notebook);
    const ids = cells.length ? this._code.ids(notebook) : null;
    if (!ids) {
      return [...cells];
    }
    const order = new Map(ids.map((id, index) => [id, index]));
    const changed = cells.filter(cell => {
      const now = cell.sign === '−' ? null : this._code.cell(cell);
      return now && !isBack(cell, now);
    });
    const removed = cells.filter(({ sign, cell_id }) => sign === '−' && !order.has(cell_id));
    const placed: [number, IPendingCell][] = changed.map(cell => [order.get(cell.cell_id)!, cell]);
    for (const [id, own] of placesOf(removed, ids)) {
      placed.push(
        ...own.map((cell): [number, IPendingCell] => [(order.get(id) ?? -1) + 0.5, cell])
      );
    }
    return placed.sort(([one], [other]) => one - other).map(([, cell]) => cell);
  }

  /** The first change from where the user is. */
  private _nearest(step: 1 | -1): number {
    const { cells } = this.state;
    const { notebook = '', attachments = [] } = this._notebooks.place ?? {};
    const ids = this._code.ids(notebook) ?? [];
    const at = ids.indexOf(cellOf(attachments) ?? '');
    const isAhead = (cell: IPendingCell): boolean =>
      cell.notebook === notebook && (ids.indexOf(this._beside(cell).cell_id) - at) * step >= 0;
    const found = step > 0 ? cells.findIndex(isAhead) : cells.findLastIndex(isAhead);
    const first = cells.findIndex(cell => cell.notebook === notebook);
    return found < 0 ? Math.max(first, 0) : found;
  }

  /** If the user moves to a changed cell, its change becomes the current one. */
  private _onMoved(): void {
    const { notebook, attachments = [] } = this._notebooks.place ?? {};
    const cellId = cellOf(attachments);
    if (cellId === this._active) {
      return;
    }
    this._active = cellId;
    const current = this.state.cells.find(
      cell => cell.notebook === notebook && cell.cell_id === cellId
    );
    if (current && current !== this.state.current) {
      this.update({ current });
    }
  }

  private readonly _revealed = new Signal<this, IPendingCell>(this);
  /** The last known active cell. */
  private _active: string | undefined;
  private _frame = 0;
}

function cellOf(attachments: readonly { type: string; cell_id?: string }[]): string | undefined {
  return attachments.find(({ type }) => type === 'cell')?.cell_id;
}

function isSame(one: ICellRef, other: ICellRef): boolean {
  return one.notebook === other.notebook && one.cell_id === other.cell_id;
}
