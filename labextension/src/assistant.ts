import type { IStateDB } from '@jupyterlab/statedb';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { AgentClient } from './client';
import { RequestError } from './client';
import { Conversation, type Progress } from './conversation';
import type { IRequest } from './conversation';
import type { OpenNotebooks, IPlace } from './notebooks';
import type { IConversationSummary, IInstructions, IModels, Mode } from './protocol';
import type { IAssistant } from './tokens';

const STATE = 'jupyter-agent:assistant';

/** What the panel shows besides the conversation; never changed in place. */
export interface IAssistantState {
  readonly conversation: Conversation;
  readonly view: 'conversation' | 'conversations' | 'models';
  readonly conversations: readonly IConversationSummary[];
  readonly models: IModels | null;
  /** Why nothing can be asked, as the server has it; empty where all is well. */
  readonly problem: string;
  /** What the user is about to ask. */
  readonly draft: string;
  /** What goes with the draft; stays as it is while there is one. */
  readonly place: IPlace | null;
  readonly mode: Mode;
  /** The model that was chosen, or null for the server's default. */
  readonly model: string | null;
  /** What every answer about the notebook in front follows. */
  readonly instructions: readonly IInstructions[];
}

/** What is remembered from one page load to the next. */
interface IRemembered {
  conversation: string;
  model: string | null;
  modes: Record<string, Mode>;
}

/** The assistant as this page sees it: the conversation in front, the draft, and the choices of the user. */
export class Assistant implements IAssistant {
  constructor(
    private readonly _client: AgentClient,
    private readonly _page: string,
    private readonly _notebooks: OpenNotebooks,
    private readonly _stateDB: IStateDB | null
  ) {
    this._state = {
      conversation: new Conversation(_client, _page),
      view: 'conversation',
      conversations: [],
      models: null,
      problem: '',
      draft: '',
      place: _notebooks.place,
      mode: this._defaultMode,
      model: null,
      instructions: []
    };
    _notebooks.moved.connect(this.follow, this);
    this._watch(this._state.conversation);
  }

  /** Emitted whenever `state` is another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): IAssistantState {
    return this._state;
  }

  /** Emitted when a turn of the conversation in front has ended. */
  get turnEnded(): ISignal<this, Conversation> {
    return this._turnEnded;
  }

  /** The mode of notebooks for which the user has not chosen one. */
  set defaultMode(mode: Mode) {
    this._defaultMode = mode;
    this.follow();
  }

  /** What the user wants of every answer, from their settings. */
  set ownInstructions(text: string) {
    this._ownInstructions = text.trim();
    void this._readInstructions();
  }

  /** Go on where the user was: the conversation of the last page load, or one whose turn runs. */
  async restore(): Promise<void> {
    const remembered = (await this._stateDB?.fetch(STATE)) as Partial<IRemembered> | undefined;
    this._modes = remembered?.modes ?? {};
    this._set({ model: remembered?.model ?? null });
    this.follow();
    void this.readModels();
    const id =
      sessionStorage.getItem(STATE) ?? // of this very tab; JupyterLab saves its state only after a while
      remembered?.conversation ??
      (await this._runningConversation());
    if (id && !this._state.conversation.state.messages.length) {
      this.show(id);
    }
  }

  async readModels(): Promise<void> {
    try {
      this._set({ models: await this._client.models(), problem: '' });
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      this._set({ problem: error.message });
    }
  }

  /** Store the key of a provider and use it from now on, in place of the tour too. Raises RequestError. */
  async setKey(provider: string, key: string): Promise<void> {
    await this._client.setKey(provider, key);
    await this.readModels();
    const [first] =
      this._state.models?.providers.find(({ name }) => name === provider)?.models ?? [];
    if (first && this.answering.startsWith('demo:')) {
      this.setModel(`${provider}:${first}`);
    }
    this.setView('conversation');
  }

  /** The model that answers next, as `provider:model`; empty until the server has told. */
  get answering(): string {
    return this._state.model ?? this._state.models?.default ?? '';
  }

  /** Ask about the notebook in front, in the conversation in front. Returns when the turn has ended. */
  async ask(text: string, options: Partial<IRequest> = {}): Promise<void> {
    const { conversation, place } = this._state;
    this._set({ view: 'conversation' });
    const asked = conversation.send({
      text,
      notebook: place?.notebook,
      context: place?.attachments,
      ...this.choices,
      ...options
    });
    this._remember();
    await asked;
  }

  /** Ask about the active cell, whatever is drafted about another. */
  async askHere(text: string): Promise<void> {
    const { place } = this._notebooks;
    await this.ask(text, { notebook: place?.notebook, context: place?.attachments });
  }

  /** What the user chose for the next turn. */
  get choices(): Pick<IRequest, 'mode' | 'model' | 'instructions'> {
    return {
      mode: this._state.mode,
      model: this._state.model ?? undefined,
      instructions: this._ownInstructions || undefined
    };
  }

  /** Take back what the last turn changed, except what the user changed since. */
  async undoLastTurn(): Promise<void> {
    const { conversation } = this._state;
    const turnId = conversation.state.messages.findLast(message => message.metadata?.turnId)
      ?.metadata?.turnId;
    if (turnId) {
      await conversation.undo(turnId);
    }
  }

  newConversation(): void {
    this._open(new Conversation(this._client, this._page));
  }

  /** Show a conversation of the server. */
  show(id: string): void {
    const conversation = new Conversation(this._client, this._page, id);
    this._open(conversation);
    void conversation.load();
  }

  async listConversations(query = ''): Promise<void> {
    this._set({ view: 'conversations' });
    this._set({ conversations: await this._client.conversations(query) });
  }

  async renameConversation(id: string, title: string): Promise<void> {
    const { conversation, conversations } = this._state;
    await (id === conversation.id ? conversation.rename(title) : this._client.rename(id, title));
    const renamed = conversations.map(known => (known.id === id ? { ...known, title } : known));
    this._set({ conversations: renamed });
  }

  async removeConversation(id: string): Promise<void> {
    await this._client.remove(id);
    const conversations = this._state.conversations.filter(known => known.id !== id);
    this._set({ conversations });
    if (id === this._state.conversation.id) {
      this._open(new Conversation(this._client, this._page), 'conversations');
    }
  }

  setView(view: IAssistantState['view']): void {
    this._set({ view });
  }

  /** Take what goes with the draft from where the user is; not while there is a draft, which is about a place. */
  follow(): void {
    if (!this._state.draft) {
      const { place } = this._notebooks;
      const elsewhere = place?.notebook !== this._state.place?.notebook;
      this._set({ place, mode: this._modes[place?.notebook ?? ''] ?? this._defaultMode });
      if (elsewhere) {
        void this._readInstructions();
      }
    }
  }

  setDraft(draft: string): void {
    this._set({ draft });
    this.follow();
  }

  /** Take something away from what goes with the draft; without an index, the notebook with all that is of it. */
  detach(index?: number): void {
    const { place } = this._state;
    const attachments = place?.attachments.filter((_, other) => other !== index) ?? [];
    this._set({ place: place && index !== undefined ? { ...place, attachments } : null });
  }

  setMode(mode: Mode): void {
    this._set({ mode });
    this._modes = { ...this._modes, [this._state.place?.notebook ?? '']: mode };
    this._remember();
  }

  /** Let this model answer from now on; the server's default is not pinned. */
  setModel(model: string): void {
    this._set({ model: model === this._state.models?.default ? null : model });
    this._remember();
  }

  private _open(conversation: Conversation, view: IAssistantState['view'] = 'conversation'): void {
    this._state.conversation.dispose();
    this._set({ conversation, view });
    this._watch(conversation);
    this._remember();
  }

  private _watch(conversation: Conversation): void {
    let before: Progress = conversation.state.progress;
    conversation.changed.connect(() => {
      const { progress } = conversation.state;
      const last = before;
      before = progress;
      if (last === 'running' && progress !== last) {
        this._turnEnded.emit(conversation);
        void this._readInstructions(); // the turn may have written such a file
      }
    });
  }

  private async _readInstructions(): Promise<void> {
    const own = this._ownInstructions;
    const { notebook = '' } = this._state.place ?? {};
    const files = await this._client.instructions(notebook).catch(() => []); // of use, but no more
    const settings = own ? [{ source: 'settings', characters: own.length, cut: false }] : [];
    this._set({ instructions: [...files, ...settings] });
  }

  private async _runningConversation(): Promise<string | undefined> {
    const conversations = await this._client.conversations('').catch(() => []); // `problem` tells
    return conversations.find(({ state }) => state === 'running' || state === 'waiting')?.id;
  }

  private _remember(): void {
    const { conversation, model } = this._state;
    sessionStorage.setItem(STATE, conversation.id);
    void this._stateDB?.save(STATE, { conversation: conversation.id, model, modes: this._modes });
  }

  private _set(change: Partial<IAssistantState>): void {
    this._state = { ...this._state, ...change };
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _turnEnded = new Signal<this, Conversation>(this);
  private _ownInstructions = '';
  private _defaultMode: Mode = 'ask';
  private _modes: Record<string, Mode> = {};
  private _state: IAssistantState;
}
