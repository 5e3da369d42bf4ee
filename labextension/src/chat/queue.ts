import { UUID } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { IRequest } from '../api/request';
import type { Conversation } from './conversation';

/** A question that waits for the end of the turn; its id is that of the message, so that it is asked once. */
export interface IQueued extends IRequest {
  id: string;
}

/** What waits in the conversation in front; never changed in place. */
export interface IQueueState {
  readonly waiting: readonly IQueued[];
  /** Whether the user has to say that it may go: the turn before did not end as it should. */
  readonly held: boolean;
}

/**
 * Questions that are asked one after the other, each when the turn before has ended. They outlive a reload.
 *
 * After a turn that was stopped or has failed the next one waits for the user, who may want something else.
 */
export class Queue {
  /** @param _send - Asks in the conversation in front. */
  constructor(private readonly _send: (request: IQueued) => void) {}

  /** Emitted whenever `state` is another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): IQueueState {
    return this._state;
  }

  /** Show what waits in a conversation. */
  open(conversation: Conversation): void {
    this._conversation = conversation;
    const kept = sessionStorage.getItem(this._key(conversation));
    this._set({ waiting: kept ? (JSON.parse(kept) as IQueued[]) : [], held: false });
  }

  add(request: IRequest): void {
    this._change([...this._state.waiting, { ...request, id: UUID.uuid4() }]);
  }

  /** Take a question out of the queue. */
  remove(id: string): void {
    this._change(this._state.waiting.filter(queued => queued.id !== id));
  }

  /** Ask the next one if the turn before ended as it should; where it did not, the user has to say so. */
  proceed(): void {
    const { progress } = this._conversation?.state ?? {};
    if (progress === 'done' || progress === 'idle') {
      this.next();
    } else if (progress !== 'running') {
      this._set({ ...this._state, held: true });
    }
  }

  /** Ask the next one now. */
  next(): void {
    const [first] = this._state.waiting;
    this._set({ ...this._state, held: false });
    if (first && !this._conversation?.busy) {
      this.remove(first.id);
      this._send(first);
    }
  }

  private _change(waiting: readonly IQueued[]): void {
    this._set({ ...this._state, waiting });
    if (!this._conversation) {
      return;
    }
    const key = this._key(this._conversation);
    if (!waiting.length) {
      sessionStorage.removeItem(key);
      return;
    }
    try {
      sessionStorage.setItem(key, JSON.stringify(waiting));
    } catch (error) {
      if (!(error instanceof DOMException)) {
        throw error;
      }
      sessionStorage.removeItem(key); // pictures may be more than the browser keeps: then only this page has them
    }
  }

  private _key({ id }: Conversation): string {
    return `jupyter-agent:queue:${id}`;
  }

  private _set(state: IQueueState): void {
    this._state = state;
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _conversation: Conversation | null = null;
  private _state: IQueueState = { waiting: [], held: false };
}
