import type { AgentClient } from '../api/client';
import { Store } from '../store';

/** Why the assistant cannot work in this server's notebooks, and what helps; empty if it can. */
export class Obstacle extends Store<string> {
  constructor(private readonly _client: AgentClient) {
    super('');
    void this._read();
  }

  private async _read(): Promise<void> {
    this.set(await this._client.obstacle().catch(() => '')); // a server that does not answer is shown as `problem`
  }
}
