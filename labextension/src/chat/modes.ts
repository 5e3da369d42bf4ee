import type { AgentClient } from '../api/client';
import type { Mode } from '../api/protocol';

/** From the strictest to the freest. */
export const MODES: readonly Mode[] = ['read', 'ask', 'edit', 'auto'];

/** What the assistant may do in each notebook: what the user chose, at most what the administrator allows. */
export class Modes {
  /** By notebook, what the user chose. */
  chosen: Readonly<Record<string, Mode>> = {};
  /** Where the user has not chosen. */
  byDefault: Mode = 'ask';
  /** The freest that the administrator allows. */
  freest: Mode = 'auto';

  /** Learn what the administrator allows; where the server does not say it now, it refuses the rest later. */
  async readFreest(client: AgentClient): Promise<void> {
    this.freest = await client.freestMode().catch(() => this.freest);
  }

  /** The mode of questions about that notebook. */
  of(notebook: string): Mode {
    const wanted = this.chosen[notebook] ?? this.byDefault;
    return MODES[Math.min(MODES.indexOf(wanted), MODES.indexOf(this.freest))];
  }
}
