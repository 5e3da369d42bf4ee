import type { AgentClient } from '../api/client';
import type { IFailure } from '../api/failure';
import { failureOf } from '../api/failure';
import type { Effort, IModels, IPicture, Share } from '../api/protocol';
import { Store } from '../store';

/** The user's choices about models. */
export interface IModelChoice {
  /** The model, or null for the server's default. */
  readonly model: string | null;
  /** How much the model thinks, or null to leave it to the model. */
  readonly effort: Effort | null;
  /**
   * The model that answers if the model fails or refuses, as `provider:model`: empty for none, null for the server's.
   */
  readonly fallback: string | null;
}

/** The available models and the choice among them; never changed in place. */
export interface IModelsState {
  readonly models: IModels | null;
  /** Why no question can be sent. */
  readonly problem: IFailure | null;
  readonly choice: IModelChoice;
  /** The provider whose key was just stored, and how many models it lists for the key, null if unknown. */
  readonly accepted: { readonly provider: string; readonly models: number | null } | null;
}

/** The models available on the server, and the user's choice among them. */
export class Models extends Store<IModelsState> {
  constructor(private readonly _client: AgentClient) {
    super({
      models: null,
      problem: null,
      choice: { model: null, effort: null, fallback: null },
      accepted: null
    });
  }

  /** How much of notebooks models may see, from the user's settings. */
  share: Share = 'all';

  /** The model that answers next, as `provider:model`; empty until the models were read. */
  get answering(): string {
    return this.state.choice.model ?? this.state.models?.default ?? '';
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

  /** The models that the server offers, as `provider:model`, each with whether its provider has a key. */
  get offered(): { model: string; credentials: boolean }[] {
    return (this.state.models?.providers ?? []).flatMap(({ name, models, credentials }) =>
      models.map(model => ({ model: `${name}:${model}`, credentials }))
    );
  }

  /**
   * Whether the server can have this model: it offers it, or the provider without a list of its models. Every model is
   * possible until the models were read.
   */
  isPossible(model: string): boolean {
    const { models } = this.state;
    if (!models || [models.default, models.fallback, this.answering].includes(model)) {
      return true;
    }
    const [, provider] = /^([^:]+):./.exec(model) ?? [];
    const unlisted = models.providers.some(one => one.name === provider && !one.models.length);
    return unlisted || this.offered.some(one => one.model === model);
  }

  async read(): Promise<void> {
    try {
      this.update({ models: await this._client.models(), problem: null });
    } catch (error) {
      this.update({ problem: failureOf(error) });
    }
  }

  /** Use these from now on; the server's default is not pinned. */
  choose(changed: Partial<IModelChoice>): void {
    const choice = { ...this.state.choice, ...changed };
    const model = choice.model === this.state.models?.default ? null : choice.model;
    this.update({ choice: { ...choice, model } });
  }

  /** The models that providers with a key list now, as `provider:model`; providers that do not answer are left out. */
  async listModels(): Promise<string[]> {
    const asked = (this.state.models?.providers ?? []).filter(
      ({ name, credentials }) => credentials && name !== 'demo'
    );
    const listed = await Promise.all(
      asked.map(async ({ name }) => {
        const models = await this._client.listModels(name).catch(() => []); // the user can type the name instead
        return models.map(model => `${name}:${model}`);
      })
    );
    return listed.flat();
  }

  /**
   * Store the key of a provider unless that rejects it, and switch to it if the tour is active. Raises RequestError.
   */
  async setKey(provider: string, key: string): Promise<void> {
    const models = await this._client.setKey(provider, key);
    this.update({ accepted: { provider, models } });
    await this.read();
    const [first] =
      this.state.models?.providers.find(({ name }) => name === provider)?.models ?? [];
    if (first && this.answering.startsWith('demo:')) {
      this.choose({ model: `${provider}:${first}` });
    }
  }
}
