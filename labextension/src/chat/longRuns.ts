import type { AgentClient } from '../api/client';
import { RequestError } from '../api/failure';
import { isUnfinished } from '../api/toolRuns';
import { Store } from '../store';
import type { Assistant } from './assistant';
import type { ConversationEvent } from './conversationEvents';

/** State of a run that outlived its turn. */
export type LongRun = 'going' | 'told' | 'ended';

/** By id of the run; never changed in place. */
export type LongRuns = Readonly<Record<string, LongRun>>;

/** Runs that were still running when their turn ended, and whether their end will start a turn. */
export class RunWatch extends Store<LongRuns> {
  constructor(
    private readonly _client: AgentClient,
    assistant: Assistant
  ) {
    super({});
    assistant.happened.connect(this._onHappened, this);
  }

  /** Check once whether a run is still running. */
  look(runId: string): void {
    if (!this._looked.has(runId)) {
      this._looked.add(runId);
      void this._read(runId);
    }
  }

  /** Set whether the end of a run starts a turn. */
  async tell(runId: string, wanted: boolean): Promise<void> {
    try {
      await this._client.wake(runId, wanted);
      this._set(runId, wanted ? 'told' : 'going');
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      this._set(runId, 'ended'); // in the meantime
    }
  }

  private async _read(runId: string): Promise<void> {
    try {
      const { status, wake } = await this._client.run(runId);
      if (wake) {
        await this.tell(runId, true); // the server may have restarted, and acts only for users who are present
      } else {
        this._set(runId, isUnfinished({ status }) ? 'going' : 'ended');
      }
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      this._set(runId, 'ended'); // long ago
    }
  }

  private _set(runId: string, state: LongRun): void {
    this.set({ ...this.state, [runId]: state });
  }

  private _onHappened(_: Assistant, event: ConversationEvent): void {
    if (event === 'turnEnded') {
      for (const runId of this._looked) {
        if (this.state[runId] !== 'ended') {
          void this._read(runId);
        }
      }
    }
  }

  private readonly _looked = new Set<string>();
}
