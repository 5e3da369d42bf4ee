/** Keeps the end of the growing messages in view while the reader is there. */
export class Follower {
  /** @param _tell - Called when the reader leaves the end or comes back to it. */
  constructor(private readonly _tell: (atEnd: boolean) => void) {}

  readonly attach = (box: HTMLElement | null): void => {
    this._observer.disconnect();
    this._box = box;
    if (box?.firstElementChild) {
      this._observer.observe(box.firstElementChild);
      this._observer.observe(box);
    }
    this._anchor();
  };

  readonly look = (): void => {
    const box = this._box!;
    if (this._atEnd && box.scrollTop === this._jumpedTo) {
      return; // not the user: this is the event of our own jump, after which more may have arrived
    }
    this._set(box.scrollHeight - box.scrollTop - box.clientHeight < 24);
  };

  /** Show the end, and from now on what follows. */
  readonly follow = (): void => {
    this._set(true);
    this._jump();
  };

  private _set(atEnd: boolean): void {
    if (atEnd !== this._atEnd) {
      this._atEnd = atEnd;
      this._anchor();
      this._tell(atEnd);
    }
  }

  /**
   * The browser keeps the lines in view in place when something above it grows: for someone who reads further up,
   * but not at the end, where `look` would take its scrolling for the user's.
   */
  private _anchor(): void {
    if (this._box) {
      this._box.style.overflowAnchor = this._atEnd ? 'none' : '';
    }
  }

  private _jump(): void {
    this._box?.scrollTo({ top: this._box.scrollHeight });
    this._jumpedTo = this._box?.scrollTop ?? 0;
  }

  private readonly _observer = new ResizeObserver(() => {
    if (this._atEnd) {
      this._jump();
    } else {
      this.look();
    }
  });
  private _box: HTMLElement | null = null;
  private _atEnd = true;
  /** The scroll position of our last jump to the end. */
  private _jumpedTo = -1;
}
