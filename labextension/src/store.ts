import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

/** Holds an immutable state, which is replaced on each change. */
export abstract class Store<State> {
  constructor(private _state: State) {}

  /** Emitted whenever `state` is replaced. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): State {
    return this._state;
  }

  protected set(state: State): void {
    this._state = state;
    this._changed.emit();
  }

  /** Replace parts of the state. */
  protected update(change: Partial<State>): void {
    this.set({ ...this._state, ...change });
  }

  private readonly _changed = new Signal<this, void>(this);
}
