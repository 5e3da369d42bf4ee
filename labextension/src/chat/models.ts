import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { AgentClient, IFailure } from '../api/client';
import { failureOf } from '../api/client';
import type { IModels, Share } from '../api/protocol';

/** Who can answer, and who does; never changed in place. */
export interface IModelsState {
  readonly models: IModels | null;
  /** Why nothing can be asked. */
  readonly problem: IFailure | null;
  /** The model that was chosen, or null for the server's default. */
  readonly chosen: string | null;
}

/** The models of the server, and the user's choice among them. */
export class Models {
  constructor(private readonly _client: AgentClient) {}

  /** How much of notebooks they get to see, by the user's settings. */
  share: Share = 'all';

  /** Emitted whenever `state` is another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): IModelsState {
    return this._state;
  }

  /** The model that answers next, as `provider:model`; empty until the server has told. */
  get answering(): string {
    return this._state.chosen ?? this._state.models?.default ?? '';
  }

  /** Whether the model that answers next looks at pictures; one of which that is not known may. */
  get takesPictures(): boolean {
    return this._state.models?.images?.[this.answering] !== false;
  }

  async read(): Promise<void> {
    try {
      this._set({ models: await this._client.models(), problem: null });
    } catch (error) {
      this._set({ problem: failureOf(error) });
    }
  }

  /** Let this model answer from now on; the server's default is not pinned. */
  choose(model: string | null): void {
    this._set({ chosen: model === this._state.models?.default ? null : model });
  }

  /** Store the key of a provider and use it from now on, in place of the tour too. Raises RequestError. */
  async setKey(provider: string, key: string): Promise<void> {
    await this._client.setKey(provider, key);
    await this.read();
    const [first] =
      this._state.models?.providers.find(({ name }) => name === provider)?.models ?? [];
    if (first && this.answering.startsWith('demo:')) {
      this.choose(`${provider}:${first}`);
    }
  }

  private _set(change: Partial<IModelsState>): void {
    this._state = { ...this._state, ...change };
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _state: IModelsState = { models: null, problem: null, chosen: null };
}
