import { UUID } from '@lumino/coreutils';
import type { IRequest } from '../api/request';
import type { Move } from '../bridge/renames';
import { moveAbout } from '../bridge/renames';
import { inTab } from '../storage';
import { Store } from '../store';
import type { Conversation } from './conversation';

const PREFIX = 'jupyter-agent:queue:';

/** A question that waits for the end of the turn; its id becomes the message's, so that it is sent once. */
export interface IQueued extends IRequest {
  id: string;
}

/** The queue of the conversation in front; never changed in place. */
export interface IQueueState {
  readonly waiting: readonly IQueued[];
  /** Whether the user has to release the queue, because the last turn was stopped or failed. */
  readonly held: boolean;
}

/**
 * Questions that are sent one after another, each when the previous turn has ended. They survive a reload.
 *
 * After a turn that was stopped or has failed the next one waits for the user, who may want something else.
 */
export class Queue extends Store<IQueueState> {
  /** @param _send - Sends a question in the conversation in front. */
  constructor(private readonly _send: (request: IQueued) => void) {
    super({ waiting: [], held: false });
  }

  /** Show the queue of a conversation. */
  open(conversation: Conversation): void {
    this._conversation = conversation;
    this.set({ waiting: inTab.get<IQueued[]>(this._key(conversation)) ?? [], held: false });
  }

  add(request: IRequest, id: string = UUID.uuid4()): void {
    this._change([...this.state.waiting, { ...request, id }]);
  }

  /** Take a question out of the queue. */
  remove(id: string): void {
    this._change(this.state.waiting.filter(queued => queued.id !== id));
  }

  /** Send the next question if the last turn succeeded; otherwise hold the queue until the user releases it. */
  proceed(): void {
    const { progress } = this._conversation?.state ?? {};
    if (progress === 'done' || progress === 'idle') {
      this.next();
    } else if (progress !== 'running') {
      this.update({ held: true });
    }
  }

  /** Proceed when it is known how the last turn ended. A conversation that is no longer in front does not matter. */
  async proceedAfter(known: Promise<boolean>): Promise<void> {
    const conversation = this._conversation;
    const isKnown = await known;
    if (conversation !== this._conversation) {
      return;
    }
    if (isKnown) {
      this.proceed();
    } else {
      this.update({ held: true });
    }
  }

  /** Send the next question now. */
  next(): void {
    const [first] = this.state.waiting;
    this.update({ held: false });
    if (first && !this._conversation?.busy) {
      this.remove(first.id);
      this._send(first);
    }
  }

  /** Files were renamed: what waits in any conversation is about the same ones as before. */
  move(move: Move): void {
    const moved = (waiting: readonly IQueued[]): IQueued[] =>
      waiting.map(queued => moveAbout(queued, move));
    for (const key of inTab.keys(PREFIX)) {
      inTab.set(key, moved(inTab.get<IQueued[]>(key) ?? []));
    }
    this.update({ waiting: moved(this.state.waiting) });
  }

  private _change(waiting: readonly IQueued[]): void {
    this.update({ waiting });
    if (this._conversation) {
      inTab.set(this._key(this._conversation), waiting.length ? waiting : null);
    }
  }

  private _key({ id }: Conversation): string {
    return PREFIX + id;
  }

  private _conversation: Conversation | null = null;
}
