import type { Contents } from '@jupyterlab/services';
import type { Context } from './context';

/**
 * Tells the requests that JupyterLab makes to save a notebook from those that others make for the same file.
 *
 * A save is three requests: the hash of the file, the new content, and the hash again. Each follows what came before it
 * (the signal that a save has started, the answer to the request before) before any other task of the page runs, so
 * expectations end when the next task begins.
 */
export class SaveRequests {
  constructor(context: Context) {
    context.saveState.connect((_, state) => {
      if (state === 'started') {
        this._checks++;
        this._forgetSoon();
      }
    });
  }

  /** Whether JupyterLab is in the middle of a save of this notebook, and about to make a request for `path`. */
  concern(path: string): boolean {
    return this._written.has(path) || this._checked.has(path);
  }

  /** Whether JupyterLab is about to make a request to save this notebook. */
  get isExpected(): boolean {
    return this._checks > 0 || this._writes > 0 || this._written.size > 0;
  }

  /** The written file, as JupyterLab asks for it; null if this request is not that one. */
  takeWritten(path: string): Contents.IModel | null {
    const files = this._written.get(path);
    const file = files?.shift() ?? null;
    if (!files?.length) {
      this._written.delete(path);
    }
    return file;
  }

  /** Whether a request for the hash may be the first of one save, or the last of another. */
  isAmbiguous(path: string): boolean {
    return this._checks > 0 && this._written.has(path);
  }

  /** Whether this request for the hash is JupyterLab's, before it writes. */
  takeCheck(): boolean {
    const isCheck = this._checks > 0;
    this._checks -= Number(isCheck);
    return isCheck;
  }

  /** JupyterLab's check of `path` has been answered. */
  hasChecked(path: string): void {
    this._checked.add(path);
    this._writes++;
    this._forgetSoon();
  }

  /** Whether this request to write the file is the one that follows a check. */
  takeWrite(): boolean {
    const isWrite = this._writes > 0;
    this._writes -= Number(isWrite);
    return isWrite;
  }

  /** JupyterLab's request to write `path` has been answered: the file is now this. */
  hasWritten(path: string, file: Contents.IModel): void {
    this._written.set(path, [...(this._written.get(path) ?? []), file]);
    this._forgetSoon();
  }

  private _forgetSoon(): void {
    setTimeout(() => {
      this._checks = this._writes = 0;
      this._written.clear();
      this._checked.clear();
    });
  }

  private _checks = 0;
  private _writes = 0;
  /** The paths of writes that are expected. */
  private readonly _checked = new Set<string>();
  private readonly _written = new Map<string, Contents.IModel[]>();
}
