import type { AgentClient } from '../api/client';
import type { IInstructions } from '../api/protocol';
import { Store } from '../store';

/** What every answer about the notebook in front follows: the user's own words, and files of the project. */
export class Instructions extends Store<readonly IInstructions[]> {
  constructor(private readonly _client: AgentClient) {
    super([]);
  }

  /** What the user wants of every answer, from their settings. */
  get own(): string {
    return this._own;
  }

  set own(text: string) {
    this._own = text.trim();
    void this.read();
  }

  /** Look what there is for a notebook, by default for the one that was looked at last. */
  async read(notebook = this._notebook): Promise<void> {
    this._notebook = notebook;
    const files = await this._client.instructions(notebook).catch(() => []); // of use, but no more
    const { length } = this._own;
    const own = length ? [{ source: 'settings', characters: length, cut: false }] : [];
    this.set([...files, ...own]);
  }

  private _notebook = '';
  private _own = '';
}
