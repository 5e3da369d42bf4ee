import type { AgentClient } from '../api/client';
import type { IInstructions, IProjectInstructions } from '../api/protocol';
import { Store } from '../store';

/** The instructions that apply to the notebook in front; never changed in place. */
export interface IInstructionsState {
  /** The instructions for every answer: the user's own, and project files that they trust. */
  readonly followed: readonly IInstructions[];
  /** Files of the project that the user has not decided about. */
  readonly undecided: readonly IProjectInstructions[];
}

/** The instructions for answers about the notebook in front: the user's own, and files of the project. */
export class Instructions extends Store<IInstructionsState> {
  constructor(private readonly _client: AgentClient) {
    super({ followed: [], undecided: [] });
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
    if (notebook !== this._notebook) {
      return; // another notebook was requested in the meantime
    }
    const { length } = this._own;
    const own = length ? [{ source: 'settings', characters: length, cut: false }] : [];
    this.set({
      followed: [...files.filter(({ trust }) => trust === 'trusted'), ...own],
      undecided: files.filter(({ trust }) => trust === 'new' || trust === 'changed')
    });
  }

  /** Store whether to follow the text that the user has read; a text that has changed since is shown again. */
  async decide(instructions: IProjectInstructions, trusted: boolean): Promise<void> {
    await this._client.trust(instructions, trusted).catch(() => undefined); // the panel asks again
    await this.read();
  }

  private _notebook = '';
  private _own = '';
}
