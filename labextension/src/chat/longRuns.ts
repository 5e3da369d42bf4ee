import type { AgentClient } from '../api/client';
import { RequestError } from '../api/failure';
import { isGoing } from '../api/toolRuns';
import { Store } from '../store';
import type { Assistant } from './assistant';
import type { ConversationEvent } from './conversationEvents';

/** What is known of a run that outlived its turn. */
export type LongRun = 'going' | 'told' | 'ended';

/** By id of the run; never changed in place. */
export type LongRuns = Readonly<Record<string, LongRun>>;

/** Runs that were still going when their turn ended, and whether their end is told. */
export class RunWatch extends Store<LongRuns> {
  constructor(
    private readonly _client: AgentClient,
    assistant: Assistant
  ) {
    super({});
    assistant.happened.connect(this._onHappened, this);
  }

  /** Look once whether a run still goes on. */
  look(runId: string): void {
    if (!this._looked.has(runId)) {
      this._looked.add(runId);
      void this._read(runId);
    }
  }

  /** Have the end of a run told, or not. */
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
        await this.tell(runId, true); // the server may have been started again, and acts only for who is there
      } else {
        this._set(runId, isGoing({ status }) ? 'going' : 'ended');
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
