/** One thing after the other. */
export class Turns {
  /** Whether something is under way. */
  get isBusy(): boolean {
    return this._last !== null;
  }

  /** Do it once everything is done that was asked for before, at once if that is so, and before anything that follows. */
  take<T>(work: () => Promise<T>): Promise<T> {
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
