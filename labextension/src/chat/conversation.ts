import type { IDisposable } from '@lumino/disposable';
import { UUID } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import type { Announcements, IAnnouncement } from '../api/announcements';
import { type AgentClient } from '../api/client';
import { failureOf } from '../api/failure';
import type {
  AgentChunk,
  IApproval,
  IApprovalAnswer,
  ICellRef,
  IStoredConversation,
  IUndone
} from '../api/protocol';
import type { Move } from '../bridge/renames';
import { moveAbout } from '../bridge/renames';
import type { IRequest, ITurnOptions } from '../api/request';
import { againOf, bodyOf, messagesBefore, questionIn, questionOf } from '../api/request';
import { chunks } from '../api/stream';
import { Store } from '../store';
import { type ConversationEvent, eventsBetween } from './conversationEvents';
import { EMPTY, type IConversationState } from './conversationState';
import { moveShown } from './moved';
import { advance, isEnd, pendingApprovals, withAnswers, withDuration, withStart } from './message';

/**
 * One conversation with the assistant, as stored on the server. The server runs the turn: this follows it, reconnects
 * after a connection loss or a reload, and shows the messages of other pages and scripts in it.
 */
export class Conversation extends Store<IConversationState> implements IDisposable {
  /** @param page - The id of this page load, which tells the server which tab the user is in. */
  constructor(
    private readonly _client: AgentClient,
    private readonly _page: string,
    announcements: Announcements,
    readonly id: string = UUID.uuid4()
  ) {
    super(EMPTY);
    announcements.received.connect(this._onAnnounced, this);
  }

  /** Emits the events that a change of the state stands for, after `changed`. */
  get happened(): ISignal<this, ConversationEvent> {
    return this._happened;
  }

  /** Whether a turn is running or waiting for an answer. */
  get busy(): boolean {
    return this.state.progress === 'running';
  }

  /** The questions that the turn is waiting for. */
  get approvals(): IApproval[] {
    return this.busy ? pendingApprovals(this.state.messages.at(-1)) : [];
  }

  get isDisposed(): boolean {
    return this._abort.signal.aborted;
  }

  dispose(): void {
    this._abort.abort();
    Signal.clearData(this);
  }

  /** Read it from the server, and follow its turn if one is running. Returns whether its state is known. */
  async load(): Promise<boolean> {
    if (this.busy) {
      return true;
    }
    return this._following(async () => {
      const stored = await this._client.conversation(this.id);
      if (!this.busy) {
        await this._show(stored); // else a turn was started or found here in the meantime
      }
    });
  }

  /** Send a question; a repeated `id` is sent once, even from several pages. Returns when the turn has ended. */
  async send(request: IRequest, id?: string): Promise<void> {
    const question = questionOf(request, id);
    const earlier = messagesBefore(this.state.messages, request.replaces?.id);
    this.update({ messages: [...earlier, question] });
    await this._ask(bodyOf(request, question, { id: this.id, client: this._page }));
  }

  /** Resend a question (the last by default): unchanged if the server never got it, else for another answer. */
  async retry(options: ITurnOptions, id?: string): Promise<void> {
    const { messages } = this.state;
    const question = questionIn(messages, id);
    if (!question) {
      return;
    }
    this.update({ messages: [...messagesBefore(messages, question.id), question] });
    await this._ask(
      this._unsent ?? againOf(options, question, { id: this.id, client: this._page })
    );
  }

  /** Stop the turn, as soon as the server has started it. */
  async stop(): Promise<void> {
    if (this.busy && this._unsent) {
      this._stopAtStart = true;
      return;
    }
    await this._try(() => this._client.stop(this.id));
  }

  /** Retry a failed request to the model now. The stream reports it. */
  async retryNow(): Promise<void> {
    await this._try(() => this._client.retryNow(this.id));
  }

  /** Answer several questions at once, all or none. */
  async answer(answers: IApprovalAnswer[]): Promise<void> {
    const last = this.state.messages.length - 1;
    const message = withAnswers(this.state.messages[last], answers);
    this.update({ messages: this.state.messages.with(last, message) });
    await this._try(() => this._client.answer(this.id, answers));
  }

  /** Undo the changes of a turn, or only those to `cells`; null if the server refused. */
  async undo(turnId: string, cells?: ICellRef[]): Promise<IUndone | null> {
    const undone = await this._try(() => this._client.undo(turnId, cells));
    if (undone && !cells) {
      this.update({ undone: { ...this.state.undone, [turnId]: undone } });
    }
    await this.refreshChanges(turnId);
    return undone;
  }

  /** Mark the changes of a turn, or only those to `cells`, as reviewed. */
  async accept(turnId: string, cells?: ICellRef[]): Promise<void> {
    await this._try(() => this._client.accept(turnId, cells));
    await this.refreshChanges(turnId);
  }

  /** Read again which changes of a turn are kept or undone, if the turn belongs to this conversation. */
  async refreshChanges(turnId: string): Promise<void> {
    const messages = this.state.messages.filter(({ metadata }) => metadata?.turnId === turnId);
    await this._try(() => this._readChanges(messages));
  }

  /** Raises RequestError, NetworkError. */
  async rename(title: string): Promise<void> {
    await this._client.rename(this.id, title);
    this.update({ title });
  }

  /** Files were renamed. */
  move(move: Move): void {
    this._unsent &&= moveAbout(this._unsent, move);
    this.update(moveShown(this.state, move));
  }

  /** The running turn reports its own changes; for a turn already shown only its changes are read, else everything. */
  private _onAnnounced(_: Announcements, { conversation_id, turn_id }: IAnnouncement): void {
    if (conversation_id !== this.id) {
      return;
    }
    const { messages } = this.state;
    const shown = messages.findLast(({ metadata }) => metadata?.turnId === turn_id);
    if (!turn_id || !shown) {
      void this.load();
    } else if (!this.busy || shown !== messages.at(-1)) {
      void this.refreshChanges(turn_id);
    }
  }

  private async _ask(request: ReturnType<typeof bodyOf>): Promise<void> {
    const key = request.trigger ? UUID.uuid4() : request.messages[0].id;
    this._unsent = request;
    this._stopAtStart = false;
    this.update({ progress: 'running', failure: null });
    const connect = (): Promise<Response> => this._client.chat(request, key, this._abort.signal);
    await this._following(() => this._follow(connect));
  }

  /** Returns whether `work` has succeeded; no turn that it followed counts as running any more. */
  private async _following(work: () => Promise<void>): Promise<boolean> {
    const done = await this._try(async () => {
      await work();
      return true;
    });
    if (!done && this.busy) {
      this.update({ progress: 'failed' });
    }
    return done ?? false;
  }

  /** Show what the server has stored, and follow the turn if it is running. */
  private async _show({ title, messages, state }: IStoredConversation): Promise<void> {
    const running = state === 'running' || state === 'waiting';
    this.update({ title, messages, progress: running ? 'running' : (state ?? 'idle') });
    if (running) {
      await this._follow(() => this._client.follow(this.id, '', this._abort.signal));
    } else {
      await this._readChanges();
    }
  }

  /** Apply a turn's stream until its end. If that does not say how the turn ended, the server is asked. */
  private async _follow(connect: () => Promise<Response>): Promise<void> {
    const { signal } = this._abort;
    const stream = chunks({
      connect,
      resume: after => this._client.follow(this.id, after, signal),
      signal,
      onConnected: connected => this.update({ connected })
    });
    let isEnded = false;
    for await (const chunk of stream) {
      this._apply(chunk);
      isEnded = isEnd(chunk);
    }
    if (isEnded) {
      await this._onEnded();
    } else if (!this.isDisposed) {
      await this._show(await this._client.conversation(this.id)); // it ended while there was no connection
    }
  }

  private _apply(chunk: AgentChunk): void {
    const { messages } = this.state;
    switch (chunk.type) {
      case 'start': {
        this.update({ messages: withStart(messages, chunk) });
        if (this._unsent) {
          this._startedAt = Date.now();
          this._unsent = null;
          if (this._stopAtStart) {
            void this.stop();
          }
        }
        break;
      }
      case 'abort':
        this.update({ progress: 'stopped' });
        break;
      case 'error':
        this.update({ progress: 'failed', failure: { message: chunk.errorText, reason: 'turn' } });
        break;
      default:
        this.update({ messages: messages.with(-1, advance(messages.at(-1)!, chunk)) });
    }
  }

  /** The next question may be asked as soon as the turn is done. */
  private async _onEnded(): Promise<void> {
    const answer = withDuration(this.state.messages.slice(-1), this._startedAt);
    this._startedAt = 0;
    this.update({ messages: [...this.state.messages.slice(0, -1), ...answer] });
    if (this.busy) {
      this.update({ progress: 'done' });
    }
    await this._try(() => this._readChanges(answer));
  }

  /** Read the state of the changes that these messages report. */
  private async _readChanges(messages = this.state.messages): Promise<void> {
    for (const { metadata, parts } of messages) {
      if (metadata?.turnId && parts.some(part => part.type === 'data-changes')) {
        const changes = await this._client.changes(metadata.turnId);
        this.update({ changes: { ...this.state.changes, [metadata.turnId]: changes } });
      }
    }
  }

  /** The result of `work`, or null with the reason in `state.failure`. */
  private async _try<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (this.isDisposed) {
        return null;
      }
      this.update({ failure: failureOf(error) });
      return null;
    }
  }

  protected override set(state: IConversationState): void {
    if (!this.isDisposed) {
      const before = this.state;
      super.set(state);
      eventsBetween(before, state).forEach(event => this._happened.emit(event));
    }
  }

  private readonly _abort = new AbortController();
  private readonly _happened = new Signal<this, ConversationEvent>(this);
  /** The request that the server has not accepted yet. */
  private _unsent: ReturnType<typeof bodyOf> | null = null;
  private _stopAtStart = false;
  private _startedAt = 0; // 0 for a turn that was not followed from its start
}
