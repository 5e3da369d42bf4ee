import type { AgentClient } from '../api/client';
import { RequestError } from '../api/failure';
import type { IUsage } from '../api/protocol';
import { Store } from '../store';
import type { Assistant } from './assistant';
import type { ConversationEvent } from './conversationEvents';

/** Usage and the state of a summary; never changed in place. */
export interface IUsageState {
  readonly shown: boolean;
  /** Usage of the whole conversation, or null until it was read. */
  readonly usage: IUsage | null;
  /** The state of the summary that the user requested. */
  readonly summary: 'none' | 'asked' | 'made' | 'needless' | 'refused';
  /** The server's message if it was refused. */
  readonly refusal: string;
}

const NOTHING: IUsageState = { shown: false, usage: null, summary: 'none', refusal: '' };

/** Usage of the conversation in front, read while it is shown; can also compact the conversation. */
export class ConversationUsage extends Store<IUsageState> {
  constructor(
    private readonly _client: AgentClient,
    private readonly _assistant: Assistant
  ) {
    super(NOTHING);
    _assistant.happened.connect(this._onHappened, this);
  }

  show(): void {
    if (!this.state.shown) {
      this.toggle();
    }
  }

  toggle(): void {
    this.update({ ...NOTHING, shown: !this.state.shown, usage: this.state.usage });
    void this._read();
  }

  /** Summarise the conversation; the transcript stays. */
  async compact(): Promise<void> {
    this.update({ summary: 'asked' });
    try {
      const made = await this._client.compact(this._conversation);
      this.update({ summary: made ? 'made' : 'needless' });
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      this.update({ summary: 'refused', refusal: error.message });
    }
    await this._read();
  }

  private async _read(): Promise<void> {
    if (this.state.shown) {
      this.update({ usage: await this._client.usage(this._conversation) });
    }
  }

  private _onHappened(_: Assistant, event: ConversationEvent): void {
    if (event === 'opened') {
      this.update({ ...NOTHING, shown: this.state.shown });
      void this._read();
    } else if (event === 'turnEnded') {
      void this._read();
    }
  }

  private get _conversation(): string {
    return this._assistant.state.conversation.id;
  }
}
