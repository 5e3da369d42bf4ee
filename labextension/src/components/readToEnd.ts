/** Tracks whether all of a scrolling box has been in view: the end of each part, and of each code block in it. */
export class ReadToEnd {
  /** @param _onChanged - Called with true once all of it has been, and with false when there is new content. */
  constructor(private readonly _onChanged: (done: boolean) => void) {}

  readonly attach = (box: HTMLElement | null): void => {
    this._observer.disconnect();
    this._box = box;
    if (box) {
      this._observer.observe(box);
    }
  };

  /** Record which ends are in view now. */
  readonly look = (): void => {
    const box = this._box;
    if (!box?.getClientRects().length) {
      return; // hidden: none of it is visible
    }
    const { top, bottom } = box.getBoundingClientRect();
    for (const part of this._parts) {
      const end = part.getBoundingClientRect().bottom;
      if (end >= top && end <= bottom + SLACK) {
        this._seen.add(part);
      }
    }
    this._onChanged(!this._unseen());
  };

  /** Scroll towards the first end that has not been in view, without skipping a line. */
  readonly showMore = (): void => {
    const part = this._unseen();
    if (part && this._box) {
      const { bottom } = this._box.getBoundingClientRect();
      const left = part.getBoundingClientRect().bottom - bottom;
      const page = Math.max(this._box.clientHeight - OVERLAP, OVERLAP);
      this._box.scrollBy({ top: Math.min(left, page), behavior: 'instant' });
      this.look();
    }
  };

  private _unseen(): Element | undefined {
    return this._parts.find(part => !this._seen.has(part));
  }

  private get _parts(): Element[] {
    return [...(this._box?.querySelectorAll(':scope > *, pre') ?? [])];
  }

  private readonly _observer = new ResizeObserver(() => this.look());
  private readonly _seen = new WeakSet<Element>();
  private _box: HTMLElement | null = null;
}

/** Rounding tolerance of browsers at the end of a scrolling box, in pixels. */
const SLACK = 2;
/** Overlap of two pages in pixels: about two lines. */
const OVERLAP = 40;
