import { PromiseDelegate } from '@lumino/coreutils';
import type { Turns } from './turns';

/** A save that is under way, or waits for its turn. */
export interface ISave {
  /** The hash of the file, if it has one, as soon as it is written. What JupyterLab asks then takes as long again. */
  written: Promise<string | undefined>;
  /** Settled when JupyterLab has done. */
  done: Promise<void>;
}

/** Saves, one after the other. Of those that have not begun there is one: it has everybody's changes in it. */
export class SaveQueue {
  constructor(
    private readonly _turns: Turns,
    private readonly _save: () => Promise<string | undefined>
  ) {}

  /** Save all that is there now. */
  save(): ISave {
    return this._turns.isBusy ? (this._next ??= this._begin()) : this._begin();
  }

  /** The save that is under way has written the file; without its hash nobody knows yet what is in it. */
  hasWritten(hash: string | undefined): void {
    if (hash) {
      this._written?.resolve(hash);
    }
  }

  private _begin(): ISave {
    const written = new PromiseDelegate<string | undefined>();
    const done = this._turns.take(async () => {
      this._next = null;
      this._written = written;
      written.resolve(await this._save());
    });
    done.catch((reason: unknown) => written.reject(reason));
    written.promise.catch(() => undefined); // not everybody waits for it
    return { written: written.promise, done };
  }

  private _next: ISave | null = null;
  private _written: PromiseDelegate<string | undefined> | null = null;
}
