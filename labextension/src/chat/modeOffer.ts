import type { IStateDB } from '@jupyterlab/statedb';
import { Store } from '../store';

const STATE = 'jupyter-agent:offer';
/** So many questions that were allowed and no more. */
const ALLOWED_BEFORE_OFFER = 3;

/** Whether a freer mode is offered now: once, to a person who allows whatever they are asked. */
export class ModeOffer extends Store<boolean> {
  constructor(private readonly _stateDB: IStateDB | null) {
    super(false);
    void _stateDB?.fetch(STATE).then(closed => closed === true && this._setAllowed(null));
  }

  /** The person allowed a question, and only that. */
  count(): void {
    this._setAllowed(this._allowed === null ? null : this._allowed + 1);
  }

  /** The person has said yes or no to it, and is not asked again. */
  close(): void {
    this._setAllowed(null);
    void this._stateDB?.save(STATE, true);
  }

  private _setAllowed(allowed: number | null): void {
    this._allowed = allowed;
    this.set(allowed !== null && allowed >= ALLOWED_BEFORE_OFFER);
  }

  /** Null once the offer was answered. */
  private _allowed: number | null = 0;
}
