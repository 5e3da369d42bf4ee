import type { AgentClient } from '../api/client';
import type { IInstructions } from '../api/protocol';
import { Store } from '../store';

/** The instructions for answers about the notebook in front: the user's own, and files of the project. */
export class Instructions extends Store<readonly IInstructions[]> {
  constructor(private readonly _client: AgentClient) {
    super([]);
  }

  /** The user's own instructions, from their settings. */
  get own(): string {
    return this._own;
  }

  set own(text: string) {
    this._own = text.trim();
    void this.read();
  }

  /** Read the instructions for a notebook, by default the one they were last read for. */
  async read(notebook = this._notebook): Promise<void> {
    this._notebook = notebook;
    const files = await this._client.instructions(notebook).catch(() => []); // optional
    const { length } = this._own;
    const own = length ? [{ source: 'settings', characters: length, cut: false }] : [];
    this.set([...files, ...own]);
  }

  private _notebook = '';
  private _own = '';
}
