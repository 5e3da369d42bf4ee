import type { AgentClient } from '../api/client';
import type { IStaleCell } from '../api/protocol';
import type { Renames } from '../bridge/renames';
import { moveKeys } from '../bridge/renames';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Assistant } from '../chat/assistant';
import { Store } from '../store';

/** Stale cells by notebook; never changed in place. */
export type StaleCells = Readonly<Record<string, readonly IStaleCell[]>>;

/**
 * The cells whose outputs no longer follow from the code above them, in notebooks that the assistant has worked in:
 * read when a turn has ended, and again when the user runs something there. They are marked in the notebook.
 */
export class Staleness extends Store<StaleCells> {
  constructor(
    private readonly _client: AgentClient,
    private readonly _notebooks: OpenNotebooks,
    private readonly _assistant: Assistant,
    renames: Pick<Renames, 'moved'>
  ) {
    super({});
    renames.moved.connect((_, move) => this.set(moveKeys(this.state, move)));
    _assistant.happened.connect((_, event) => {
      if (event === 'turnEnded') {
        this._readAfterTurn();
      }
    });
    const readAgain = (_: OpenNotebooks, notebook: string): void => {
      if (notebook in this.state) {
        void this.read(notebook);
      }
    };
    _notebooks.ran.connect(readAgain);
    _notebooks.opened.connect(readAgain); // a new view has no marks
  }

  /** Read the stale cells of a notebook. */
  async read(notebook: string): Promise<void> {
    const cells = await this._client.stale(notebook).catch(() => []); // optional
    this._notebooks.markStale(
      notebook,
      cells.map(({ cell_id }) => cell_id)
    );
    this.update({ [notebook]: cells });
  }

  private _readAfterTurn(): void {
    const { messages } = this._assistant.state.conversation.state;
    const { metadata, parts } = messages.at(-1) ?? {};
    const worked = parts?.some(part => part.type === 'data-changes');
    if (metadata?.notebook && (worked || metadata.notebook in this.state)) {
      void this.read(metadata.notebook);
    }
  }
}
