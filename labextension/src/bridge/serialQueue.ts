/** Runs asynchronous operations one after the other. */
export class SerialQueue {
  /** Whether an operation is running. */
  get isBusy(): boolean {
    return this._last !== null;
  }

  /** Run `work` after all operations before it, at once if there aren't any, and before all later ones. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this._last ? this._last.then(work, work) : work();
    const end = (): void => {
      if (this._last === result) {
        this._last = null;
      }
    };
    this._last = result;
    result.then(end, end);
    return result;
  }

  private _last: Promise<unknown> | null = null;
}
