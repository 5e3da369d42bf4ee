import type { AgentClient } from '../api/client';
import type { Mode } from '../api/protocol';
import type { Move } from '../bridge/renames';
import { moveKeys } from '../bridge/renames';

/** From the strictest to the most permissive. */
export const MODES: readonly Mode[] = ['read', 'ask', 'edit', 'auto'];

/** The mode of each notebook: the user's choice, at most what the administrator allows. */
export class Modes {
  /** The user's choices, by notebook. */
  chosen: Readonly<Record<string, Mode>> = {};
  /** For notebooks without a choice. */
  byDefault: Mode = 'ask';
  /** The most permissive mode that the administrator allows. */
  freest: Mode = 'auto';

  /** Read what the administrator allows; if the server does not answer now, it refuses other modes later. */
  async readFreest(client: AgentClient): Promise<void> {
    this.freest = await client.freestMode().catch(() => this.freest);
  }

  /** The choice goes with its notebook: another one that gets the old name does not inherit it. */
  move(move: Move): void {
    this.chosen = moveKeys(this.chosen, move);
  }

  /** The mode of questions about that notebook. */
  of(notebook: string): Mode {
    const wanted = this.chosen[notebook] ?? this.byDefault;
    return MODES[Math.min(MODES.indexOf(wanted), MODES.indexOf(this.freest))];
  }
}
