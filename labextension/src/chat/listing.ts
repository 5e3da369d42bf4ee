import type { AgentClient } from '../api/client';
import type { IConversationSummary } from '../api/protocol';
import { Store } from '../store';
import { download } from './download';

/** Filter of the list of conversations. */
export interface IListed {
  query: string;
  /** Only those about this notebook. */
  notebook?: string;
}

/** The part of the list that was read; never changed in place. */
export interface IListingState {
  readonly conversations: readonly IConversationSummary[];
  /** The number of the next page, or null if the list is complete. */
  readonly nextPage: number | null;
}

/** The conversations of the user, newest first. */
export class Listing extends Store<IListingState> {
  constructor(private readonly _client: AgentClient) {
    super({ conversations: [], nextPage: null });
  }

  /** List the conversations that match; returns when the list is that of the latest call. */
  read(listed: IListed = { query: '' }): Promise<void> {
    this._listed = listed;
    this._reading ??= this._readLatest().finally(() => (this._reading = null));
    return this._reading;
  }

  /** Read the next page. */
  async more(): Promise<void> {
    const { conversations: known, nextPage } = this.state;
    if (nextPage !== null) {
      const { conversations, next_page } = await this._client.conversations(this._listed, nextPage);
      this.set({ conversations: [...known, ...conversations], nextPage: next_page });
    }
  }

  /** Show the new title of a conversation. */
  renamed(id: string, title: string): void {
    const conversations = this.state.conversations.map(known =>
      known.id === id ? { ...known, title } : known
    );
    this.update({ conversations });
  }

  async remove(id: string): Promise<void> {
    await this._client.remove(id);
    const conversations = this.state.conversations.filter(known => known.id !== id);
    this.update({ conversations });
  }

  /** Download a conversation as Markdown. */
  async export(id: string, title: string): Promise<void> {
    download(await this._client.markdown(id), title);
  }

  /** One request at a time: a search reads all answers, and the user may type the next letter during it. */
  private async _readLatest(): Promise<void> {
    let listed, answer;
    do {
      listed = this._listed;
      answer = await this._client.conversations(listed);
    } while (listed !== this._listed);
    this.set({ conversations: answer.conversations, nextPage: answer.next_page });
  }

  private _listed: IListed = { query: '' };
  private _reading: Promise<void> | null = null;
}
