import type { IStateDB } from '@jupyterlab/statedb';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { Announcements } from '../api/announcements';
import type { AgentClient } from '../api/client';
import type { IChange, Mode } from '../api/protocol';
import type { IRequest, ITurnOptions } from '../api/request';
import type { Renames } from '../bridge/renames';
import type { Draft } from '../composer/draft';
import { QuestionHistory } from '../composer/questionHistory';
import { Store } from '../store';
import type { IAssistant } from '../tokens';
import { Conversation } from './conversation';
import type { ConversationEvent } from './conversationEvents';
import type { Instructions } from './instructions';
import type { Listing } from './listing';
import type { IModelChoice, Models } from './models';
import { Modes } from './modes';
import type { IQueued } from './queue';
import { Queue } from './queue';
import { Remembered } from './remembered';
import type { Tools } from './tools';

/** The panel's state besides the conversation; never changed in place. */
export interface IAssistantState {
  readonly conversation: Conversation;
  readonly view: 'conversation' | 'conversations' | 'models' | 'help';
  readonly mode: Mode;
  /** The most permissive mode that the administrator allows. */
  readonly freestMode: Mode;
}

/** This page's assistant: the conversation in front, the draft, and the user's choices. */
export class Assistant extends Store<IAssistantState> implements IAssistant {
  /** @param _page - The id of this page load. */
  constructor(
    private readonly _client: AgentClient,
    private readonly _page: string,
    private readonly _announcements: Announcements,
    stateDB: IStateDB | null,
    readonly draft: Draft,
    readonly models: Models,
    readonly instructions: Instructions,
    readonly listing: Listing,
    readonly tools: Tools,
    renames: Pick<Renames, 'moved'>
  ) {
    super({
      conversation: new Conversation(_client, _page, _announcements),
      view: 'conversation',
      mode: 'ask',
      freestMode: 'auto'
    });
    this._remembered = new Remembered(stateDB);
    this.history = new QuestionHistory(draft);
    renames.moved.connect((_, move) => {
      this._modes.move(move);
      this.queue.move(move);
      this.state.conversation.move(move);
      this._showMode();
      this._remember();
    });
    this.draft.changed.connect(this._onDrafted, this);
    this.queue.open(this.state.conversation);
    this.state.conversation.happened.connect(this._onHappened, this);
    this._onDrafted();
  }

  /** Questions that are sent when the turn has ended. */
  readonly queue = new Queue(({ id, ...request }) => void this._ask(request, id));

  /** Earlier questions of this user. */
  readonly history: QuestionHistory;

  /** Emits the events of the conversation in front, `opened` when another one comes to the front, and `sent`. */
  get happened(): ISignal<this, ConversationEvent> {
    return this._happened;
  }

  /** The mode of notebooks for which the user has not chosen one. */
  set defaultMode(mode: Mode) {
    this._modes.byDefault = mode;
    this._onDrafted();
  }

  /** Show the conversation of the last page load, or one whose turn is running. */
  async restore(): Promise<void> {
    const { conversation, modes, asked, ...choice } = await this._remembered.read();
    this._modes.chosen = modes ?? {};
    this.history.asked = asked ?? [];
    const { model = null, effort = null, fallback = null } = choice;
    this.models.choose({ model, effort, fallback });
    this._onDrafted();
    void this.models.read();
    void this.tools.read();
    void this._modes.readFreest(this._client).then(() => this._showMode());
    const id = conversation ?? (await this._runningConversation());
    if (id && !this.state.conversation.state.messages.length) {
      this.show(id);
    }
  }

  /** Store the key of a provider, and show the conversation. Raises RequestError. */
  async setKey(provider: string, key: string): Promise<void> {
    await this.models.setKey(provider, key);
    this._remember();
    this.setView('conversation');
  }

  /** Send `text` with the draft's attachments, now or when the running turn has ended. */
  submit(text: string): void {
    const { place, pictures, text: written } = this.draft.state;
    const request: IRequest = {
      text,
      notebook: place?.notebook,
      context: this.draft.attachments,
      pictures: [...pictures],
      ...this.choices
    };
    this.history.add(written.trim());
    this.draft.clear();
    void this._askOrQueue(request);
  }

  /** Ask about the notebook in front; `id` is that of the message. Returns when the turn has ended, or it is queued. */
  async ask(text: string, options: Partial<IRequest> = {}, id?: string): Promise<void> {
    const place = this.draft.here;
    const request: IRequest = {
      text,
      notebook: place?.notebook,
      context: place?.attachments,
      ...this.choices,
      mode: this._modes.of(options.notebook ?? place?.notebook ?? ''),
      ...options
    };
    await this._askOrQueue(request, id);
  }

  /** Replace the draft by the previous (-1) or next (1) question of the history; false if there isn't any. */
  recall(step: number): boolean {
    const here = this.state.conversation.state.messages.flatMap(({ role, parts }) =>
      role === 'user' ? parts.flatMap(part => (part.type === 'text' ? [part.text] : [])) : []
    );
    return this.history.go(step, here);
  }

  /** Move a queued question back into the draft, before the text written there. */
  editQueued({ context = [], id, notebook, pictures = [], text }: IQueued): void {
    const place = notebook ? { notebook, attachments: context } : null;
    this.queue.remove(id);
    this.draft.prepend({ text, place, pictures });
  }

  /** The user's choices for the next turn. */
  get choices(): ITurnOptions {
    const { share, state } = this.models;
    const { model, effort, fallback } = state.choice;
    return {
      mode: this.state.mode,
      model: model ?? undefined,
      effort: effort ?? undefined,
      fallback_model: fallback ?? undefined,
      instructions: this.instructions.own || undefined,
      share
    };
  }

  /** Undo the changes of the last turn, except where the user has made changes since. If there was nothing to undo, returns sentences on what remains of the turn, else null. */
  async undoLastTurn(): Promise<readonly string[] | null> {
    const { conversation } = this.state;
    const turn = conversation.state.messages.findLast(one => one.metadata?.turnId)?.metadata
      ?.turnId;
    if (!turn) {
      return [];
    }
    const undone = await conversation.undo(turn);
    return undone && !undone.undone.length && !undone.conflicts.length ? undone.remarks : null;
  }

  /** The changes of a turn. */
  changes(turnId: string): Promise<IChange[]> {
    return this._client.changes(turnId);
  }

  newConversation(): void {
    this._open(new Conversation(this._client, this._page, this._announcements));
  }

  /** Show a stored conversation. */
  show(id: string): void {
    const conversation = new Conversation(this._client, this._page, this._announcements, id);
    this._open(conversation);
    void this.queue.proceedAfter(conversation.load());
  }

  async listConversations(): Promise<void> {
    this.update({ view: 'conversations' });
    await this.listing.read();
  }

  async renameConversation(id: string, title: string): Promise<void> {
    const { conversation } = this.state;
    await (id === conversation.id ? conversation.rename(title) : this._client.rename(id, title));
    this.listing.renamed(id, title);
  }

  async removeConversation(id: string): Promise<void> {
    await this.listing.remove(id);
    if (id === this.state.conversation.id) {
      this._open(new Conversation(this._client, this._page, this._announcements), 'conversations');
    }
  }

  setView(view: IAssistantState['view']): void {
    this.update({ view });
  }

  setMode(mode: Mode): void {
    this._modes.chosen = { ...this._modes.chosen, [this._notebook]: mode };
    this._showMode();
    this._remember();
  }

  /** Use these from now on. */
  choose(choice: Partial<IModelChoice>): void {
    this.models.choose(choice);
    this._remember();
  }

  private _open(conversation: Conversation, view: IAssistantState['view'] = 'conversation'): void {
    this.state.conversation.dispose();
    this.update({ conversation, view });
    this.queue.open(conversation);
    conversation.happened.connect(this._onHappened, this);
    this._happened.emit('opened');
    this._remember();
  }

  private async _askOrQueue(request: IRequest, id?: string): Promise<void> {
    this.update({ view: 'conversation' });
    if (this.state.conversation.busy) {
      return this.queue.add(request, id);
    }
    const asked = this._ask(request, id);
    this._happened.emit('sent'); // the question is in the conversation now
    await asked;
  }

  private async _ask(request: IRequest, id?: string): Promise<void> {
    const asked = this.state.conversation.send(request, id);
    this._remember();
    await asked;
  }

  /** The notebook that the draft is about, or empty. */
  private get _notebook(): string {
    return this.draft.state.place?.notebook ?? '';
  }

  private _onDrafted(): void {
    const before = this._about;
    this._about = this._notebook;
    this._showMode();
    if (this._about !== before) {
      void this.instructions.read(this._about);
    }
  }

  private _showMode(): void {
    this.update({ mode: this._modes.of(this._notebook), freestMode: this._modes.freest });
  }

  /** Listeners get the end of a turn before the next question is sent. */
  private _onHappened(_: Conversation, event: ConversationEvent): void {
    this._happened.emit(event);
    if (event === 'turnEnded') {
      void this.instructions.read(); // the turn may have written an instruction file
      this.queue.proceed();
    }
  }

  private async _runningConversation(): Promise<string | undefined> {
    const listed = await this._client.conversations({ query: '' }).catch(() => null); // shown as `problem`
    return listed?.conversations.find(({ state }) => /^(running|waiting)$/.test(state ?? ''))?.id;
  }

  private _remember(): void {
    this._remembered.write({
      conversation: this.state.conversation.id,
      ...this.models.state.choice,
      modes: this._modes.chosen,
      asked: [...this.history.asked]
    });
  }

  private readonly _happened = new Signal<this, ConversationEvent>(this);
  private _about: string | null = null;
  private readonly _modes = new Modes();
  private readonly _remembered: Remembered;
}
