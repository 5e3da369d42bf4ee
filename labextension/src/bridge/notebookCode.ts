import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { ICellRef } from '../api/protocol';
import { METADATA_KEY } from './openNotebooks';

/** The code of the notebooks open on this page, and whether their metadata records a verification. */
export class NotebookCode {
  constructor(private readonly _tracker: INotebookTracker) {
    _tracker.widgetAdded.connect((_, { context }) => {
      void context.ready.then(() => this._opened.emit(context.path));
      context.model.contentChanged.connect(() => this._edited.emit(context.path));
    });
  }

  /** Emitted with the path of a notebook that was opened. */
  get opened(): ISignal<this, string> {
    return this._opened;
  }

  /** Emitted with the path of a notebook whenever anything in it has changed, outputs included. */
  get edited(): ISignal<this, string> {
    return this._edited;
  }

  /** All of its code as one text, to be compared later; that of no cells if it is not open here. */
  of(notebook: string): string {
    const cells = [...(this._panel(notebook)?.content.model?.cells ?? [])];
    const code = cells.filter(({ type }) => type === 'code');
    return JSON.stringify(code.map(({ sharedModel }) => sharedModel.getSource()));
  }

  /** The ids of its cells, from top to bottom; null if it is not open here. */
  ids(notebook: string): string[] | null {
    const cells = this._panel(notebook)?.content.model?.cells;
    return cells ? [...cells].map(({ id }) => id) : null;
  }

  /** The current state of a cell, or null if it is not open here. */
  cell({ notebook, cell_id }: ICellRef): { type: string; source: string } | null {
    const cells = this._panel(notebook)?.content.model?.cells ?? [];
    const found = [...cells].find(({ id }) => id === cell_id);
    return found ? { type: found.type, source: found.sharedModel.getSource() } : null;
  }

  /** Whether the notebook's metadata records a verification. */
  recordsVerification(notebook: string): boolean {
    const known = this._panel(notebook)?.content.model?.getMetadata(METADATA_KEY) as unknown;
    return typeof known === 'object' && known !== null && 'verified' in known;
  }

  private _panel(notebook: string): NotebookPanel | undefined {
    return this._tracker.find(({ context }) => context.path === notebook);
  }

  private readonly _opened = new Signal<this, string>(this);
  private readonly _edited = new Signal<this, string>(this);
}
