import type { IStateDB } from '@jupyterlab/statedb';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

const STATE = 'jupyter-agent:offer';
/** So many questions that were allowed and no more. */
const DUE_AFTER = 3;

/** When a freer mode is offered to a person who allows whatever they are asked: once. */
export class ModeOffer {
  constructor(private readonly _stateDB: IStateDB | null) {
    void _stateDB?.fetch(STATE).then(closed => closed === true && this._set(null));
  }

  /** Emitted whenever `state` is another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether the offer is to be made now. */
  get state(): boolean {
    return this._allowed !== null && this._allowed >= DUE_AFTER;
  }

  /** The person allowed a question, and only that. */
  count(): void {
    this._set(this._allowed === null ? null : this._allowed + 1);
  }

  /** The person has said yes or no to it, and is not asked again. */
  close(): void {
    this._set(null);
    void this._stateDB?.save(STATE, true);
  }

  private _set(allowed: number | null): void {
    this._allowed = allowed;
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  /** Null once the offer was answered. */
  private _allowed: number | null = 0;
}
