import type { AgentClient } from '../api/client';
import type { IVerified } from '../api/protocol';
import type { Move, Renames } from '../bridge/renames';
import { moveKeys } from '../bridge/renames';
import type { NotebookCode } from '../bridge/notebookCode';
import type { Assistant } from '../chat/assistant';
import { Store } from '../store';

/** The last verification of notebooks that are open here, by path; never changed in place. */
export type VerifiedNotebooks = Readonly<Record<string, IVerified | null>>;

const TOOL = 'verify_notebook';
const PAUSE_MS = 300;

/**
 * The verifications of open notebooks: by the assistant in a turn, or as recorded in their metadata. They become
 * outdated when the code changes.
 */
export class Verifications extends Store<VerifiedNotebooks> {
  constructor(
    private readonly _client: AgentClient,
    private readonly _notebookCode: NotebookCode,
    private readonly _assistant: Assistant,
    renames: Pick<Renames, 'moved'>
  ) {
    super({});
    renames.moved.connect((_, move) => this._move(move));
    _assistant.happened.connect((_, event) => {
      if (event === 'turnEnded') {
        this._readAfterTurn();
      }
    });
    _notebookCode.opened.connect((_, notebook) => {
      if (_notebookCode.recordsVerification(notebook)) {
        void this.read(notebook);
      }
    });
    _notebookCode.edited.connect((_, notebook) => this._onEdited(notebook));
  }

  /** Read it from the server. */
  async read(notebook: string): Promise<void> {
    const verified = await this._client.verification(notebook).catch(() => null); // optional
    if (verified && !verified.outdated) {
      this._code.set(notebook, this._notebookCode.of(notebook));
    } else {
      this._code.delete(notebook);
    }
    this.update({ [notebook]: verified });
  }

  /** Record the verification in the notebook's metadata. */
  async record(notebook: string): Promise<void> {
    await this._client.recordVerification(notebook);
    await this.read(notebook);
  }

  /** Delete it, also from the notebook's metadata. */
  async dismiss(notebook: string): Promise<void> {
    await this._client.forgetVerification(notebook);
    await this.read(notebook);
  }

  private _readAfterTurn(): void {
    const { messages } = this._assistant.state.conversation.state;
    const { metadata, parts } = messages.at(-1) ?? {};
    const notebook = metadata?.notebook;
    const checked = parts?.some(part => part.type === 'dynamic-tool' && part.toolName === TOOL);
    if (notebook && (checked || this.state[notebook])) {
      void this.read(notebook);
    }
  }

  private _move(move: Move): void {
    this._code = new Map([...this._code].map(([notebook, code]) => [move(notebook), code]));
    this.set(moveKeys(this.state, move));
  }

  /** Outputs are edits too, and frequent: compare the code when they pause. */
  private _onEdited(notebook: string): void {
    if (this._code.has(notebook)) {
      clearTimeout(this._timer);
      this._timer = setTimeout(() => this._compare(), PAUSE_MS);
    }
  }

  private _compare(): void {
    for (const [notebook, code] of this._code) {
      const verified = this.state[notebook];
      const outdated = this._notebookCode.of(notebook) !== code;
      if (verified && verified.outdated !== outdated) {
        this.update({ [notebook]: { ...verified, outdated } });
      }
    }
  }

  /** The code that was verified. */
  private _code = new Map<string, string>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
