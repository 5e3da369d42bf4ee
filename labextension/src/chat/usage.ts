import type { AgentClient } from '../api/client';
import { RequestError } from '../api/client';
import type { IUsage } from '../api/protocol';
import { Store } from '../store';
import type { Assistant } from './assistant';
import type { ConversationEvent } from './conversationEvents';

/** What is known of the account; never changed in place. */
export interface IUsageState {
  readonly shown: boolean;
  /** Of the whole conversation; null until it was read. */
  readonly usage: IUsage | null;
  /** How the summary stands that the user asked for. */
  readonly summary: 'none' | 'asked' | 'made' | 'needless' | 'refused';
  /** Why it was refused, in the server's words. */
  readonly refusal: string;
}

const NOTHING: IUsageState = { shown: false, usage: null, summary: 'none', refusal: '' };

/** What the conversation in front has taken, read while it is looked at; and the way to make it shorter. */
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

  /** Have the conversation summarised; the transcript stays. */
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
