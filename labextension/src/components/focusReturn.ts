import type { IDisposable } from '@lumino/disposable';

/**
 * Returns the focus when an element that has it disappears from a region, as a button does that was pressed: else the
 * next key goes to nobody. Whoever removes an element may move the focus elsewhere at once.
 */
export class FocusReturn implements IDisposable {
  /** @param _return - Moves the focus to its default place in the region. */
  constructor(
    private readonly _region: HTMLElement,
    private readonly _return: () => void
  ) {
    _region.addEventListener('focusin', this);
    _region.addEventListener('focusout', this);
    this._observer.observe(_region, { childList: true, subtree: true });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._observer.disconnect();
    this._region.removeEventListener('focusin', this);
    this._region.removeEventListener('focusout', this);
  }

  /** Called by the page when the focus moves. */
  handleEvent({ type, target }: Event): void {
    if (type === 'focusin') {
      this._focused = target instanceof HTMLElement ? target : null;
      return;
    }
    queueMicrotask(() => {
      if (target === this._focused && this._focused?.isConnected) {
        this._focused = null; // left by the user; an element that disappears is gone by now
      }
    });
  }

  private _look(): void {
    if (this._focused && !this._focused.isConnected) {
      this._focused = null;
      if (document.activeElement === document.body) {
        this._return();
      }
    }
  }

  private readonly _observer = new MutationObserver(() => this._look());
  private _focused: HTMLElement | null = null;
  private _isDisposed = false;
}
