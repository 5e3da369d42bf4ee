import type { IStateDB } from '@jupyterlab/statedb';
import { Store } from '../store';

const STATE = 'jupyter-agent:offer';
/** Number of approvals that only allowed the call. */
const ALLOWED_BEFORE_OFFER = 3;

/** Whether to offer a more permissive mode now: once, to a user who has allowed every call. */
export class ModeOffer extends Store<boolean> {
  constructor(private readonly _stateDB: IStateDB | null) {
    super(false);
    void _stateDB?.fetch(STATE).then(closed => closed === true && this._setAllowed(null));
  }

  /** The user allowed a call, and only that call. */
  count(): void {
    this._setAllowed(this._allowed === null ? null : this._allowed + 1);
  }

  /** The user accepted or declined the offer; it is not repeated. */
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
