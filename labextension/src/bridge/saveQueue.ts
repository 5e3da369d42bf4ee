import { PromiseDelegate } from '@lumino/coreutils';
import type { SerialQueue } from './serialQueue';

/** A save that is in progress or queued. */
export interface ISave {
  /**
   * Resolves with the file's hash, if any, as soon as it is written. JupyterLab's requests afterwards take as long
   * again.
   */
  written: Promise<string | undefined>;
  /** Settles when JupyterLab is done. */
  done: Promise<void>;
}

/** Serializes saves. At most one is waiting to start: it will include everyone's changes. */
export class SaveQueue {
  constructor(
    private readonly _queue: SerialQueue,
    private readonly _save: () => Promise<string | undefined>
  ) {}

  /** Save the current state. */
  save(): ISave {
    return this._queue.isBusy ? (this._next ??= this._begin()) : this._begin();
  }

  /** The save in progress has written the file; without a hash its content is not known yet. */
  hasWritten(hash: string | undefined): void {
    if (hash) {
      this._written?.resolve(hash);
    }
  }

  private _begin(): ISave {
    const written = new PromiseDelegate<string | undefined>();
    const done = this._queue.run(async () => {
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
