import type { YNotebook } from '@jupyter/ydoc';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type * as Y from 'yjs';

/** The changes of a notebook up to some moment, for `UnsavedChanges.hasSaved`. */
export interface IChanges {
  all: number;
  content: number;
}

/** Counts the changes of a notebook, to say which of them its file has. */
export class UnsavedChanges {
  constructor(private readonly _notebook: YNotebook) {
    _notebook.ydoc.on('afterTransaction', this._onTransaction);
  }

  /** Whether there are changes that the file lacks, except those that JupyterLab makes to every notebook. */
  get isAhead(): boolean {
    return this._now.content !== this._saved.content;
  }

  /** Whether there are any changes that the file lacks. */
  get exist(): boolean {
    return this._now.all !== this._saved.all;
  }

  /** Emitted when `isAhead` changes. */
  get aheadChanged(): ISignal<this, void> {
    return this._aheadChanged;
  }

  /** All changes up to now. */
  now(): IChanges {
    return { ...this._now };
  }

  /** The file has these changes, and perhaps not those made since. */
  hasSaved(changes: IChanges): void {
    const wasAhead = this.isAhead;
    this._saved = { ...changes };
    this._emitUnless(wasAhead);
  }

  /** The notebook has just been compared with its file. */
  hasCompared(isAhead: boolean): void {
    this.hasSaved(isAhead ? { all: -1, content: -1 } : this._now);
  }

  private readonly _onTransaction = ({ changed }: Y.Transaction): void => {
    const { ydoc } = this._notebook;
    const types = [...changed.keys()] as unknown[];
    const state = ydoc.getMap('state'); // has the dirty flag itself, and nothing that is saved
    const meta = ydoc.getMap('meta');
    const ofJupyterLab = [state, meta, meta.get('metadata')];
    const wasAhead = this.isAhead;
    this._now.all += Number(types.some(type => type !== state));
    this._now.content += Number(types.some(type => !ofJupyterLab.includes(type)));
    this._emitUnless(wasAhead);
  };

  private _emitUnless(isAhead: boolean): void {
    if (isAhead !== this.isAhead) {
      this._aheadChanged.emit();
    }
  }

  private readonly _now: IChanges = { all: 0, content: 0 };
  private _saved: IChanges = { all: 0, content: 0 };
  private readonly _aheadChanged = new Signal<this, void>(this);
}
