import type { AgentClient, IFailure } from '../api/client';
import { failureOf } from '../api/client';
import type { Effort, IModels, IPicture, Share } from '../api/protocol';
import { Store } from '../store';

/** The available models and the chosen one; never changed in place. */
export interface IModelsState {
  readonly models: IModels | null;
  /** Why no question can be sent. */
  readonly problem: IFailure | null;
  /** The model that was chosen, or null for the server's default. */
  readonly chosen: string | null;
  /** The provider whose key was just stored, and how many models it lists for it, null if it does not say. */
  readonly accepted: { readonly provider: string; readonly models: number | null } | null;
  /** How much the model thinks, or null to leave it to the model. */
  readonly effort: Effort | null;
}

/** The models of the server, and the user's choice among them. */
export class Models extends Store<IModelsState> {
  constructor(private readonly _client: AgentClient) {
    super({ models: null, problem: null, chosen: null, accepted: null, effort: null });
  }

  /** How much of notebooks models may see, from the user's settings. */
  share: Share = 'all';

  /** The model that answers next, as `provider:model`; empty until the models were read. */
  get answering(): string {
    return this.state.chosen ?? this.state.models?.default ?? '';
  }

  /** Whether the model that answers next supports images; assumed if unknown. */
  get takesPictures(): boolean {
    return this.state.models?.images?.[this.answering] !== false;
  }

  /** Whether the model that answers next reads PDF files; assumed if unknown. */
  get readsDocuments(): boolean {
    return this.state.models?.documents?.[this.answering] !== false;
  }

  /** Whether the model that answers next takes this file. */
  takes({ mediaType }: IPicture): boolean {
    if (mediaType.startsWith('image/')) {
      return this.takesPictures;
    }
    return mediaType !== 'application/pdf' || this.readsDocuments;
  }

  async read(): Promise<void> {
    try {
      this.update({ models: await this._client.models(), problem: null });
    } catch (error) {
      this.update({ problem: failureOf(error) });
    }
  }

  /** Use this model from now on; the server's default is not pinned. */
  choose(model: string | null): void {
    this.update({ chosen: model === this.state.models?.default ? null : model });
  }

  /** Store the key of a provider unless that rejects it, and switch to it if the tour is active. Raises RequestError. */
  /** Have models think this much from now on; null leaves it to them. */
  setEffort(effort: Effort | null): void {
    this.update({ effort });
  }

  /** Store the key of a provider, and switch to it if the tour is active. Raises RequestError. */
  async setKey(provider: string, key: string): Promise<void> {
    const models = await this._client.setKey(provider, key);
    this.update({ accepted: { provider, models } });
    await this.read();
    const [first] =
      this.state.models?.providers.find(({ name }) => name === provider)?.models ?? [];
    if (first && this.answering.startsWith('demo:')) {
      this.choose(`${provider}:${first}`);
    }
  }
}
