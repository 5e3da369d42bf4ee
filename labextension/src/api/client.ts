import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { RequestError, refusal } from './failure';
import type {
  IApprovalAnswer,
  ICellRef,
  IChange,
  IConversation,
  IConversationSummary,
  IModels,
  IPendingChange,
  IProjectInstructions,
  ISentRequest,
  IStoredConversation,
  IStaleCell,
  Mode,
  Share,
  IUndone,
  IUsage,
  IVerified
} from './protocol';
import type { IChatRequest } from './request';
import type { components } from './schemas';
import type { ITool } from './tools';
import { variablesIn } from './toolRuns';

type IServerStatus = Pick<
  components['schemas']['StatusAnswer'],
  'carriers' | 'notes' | 'share' | 'policy'
>;

/**
 * The server's routes that the panel uses. Each raises RequestError, or ServerConnection.NetworkError if no server
 * answers.
 */
export class AgentClient {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Emitted when changes were kept or undone through this client. */
  get changesReviewed(): ISignal<this, void> {
    return this._changesReviewed;
  }

  /** Ask; the answer's body is the event stream of the turn. A repeated `key` joins the turn of the first request. */
  chat(request: IChatRequest, key: string, signal: AbortSignal): Promise<Response> {
    return this._fetch('chat', {
      method: 'POST',
      body: JSON.stringify(request),
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
      signal
    });
  }

  /**
   * The stream of the conversation's turn after frame `after`, or from its start if `after` is empty; 204 if no
   * turn runs.
   */
  follow(id: string, after: string, signal: AbortSignal): Promise<Response> {
    const headers: HeadersInit = after ? { 'Last-Event-ID': after } : {};
    return this._fetch(`chat/${encodeURIComponent(id)}/stream`, { headers, signal });
  }

  /** Returns when the turn has stopped. */
  async stop(id: string): Promise<void> {
    await this._fetch(`chat/${encodeURIComponent(id)}/stop`, { method: 'POST' });
  }

  /** Retry a failed request to the model now, if the turn is waiting to do so. */
  async retryNow(id: string): Promise<void> {
    await this._fetch(`chat/${encodeURIComponent(id)}/retry`, { method: 'POST' });
  }

  async answer(id: string, approvals: IApprovalAnswer[]): Promise<void> {
    await this._send('POST', `chat/${encodeURIComponent(id)}/approvals`, { approvals });
  }

  /** The tools for models, with the words for their calls. */
  tools(): Promise<ITool[]> {
    return this._read('tools');
  }

  /** A page of the user's conversations, and the number of the next. */
  conversations(
    { query, notebook }: { query: string; notebook?: string },
    page = 1
  ): Promise<{ conversations: IConversationSummary[]; next_page: number | null }> {
    const search = URLExt.objectToQueryString({
      page: `${page}`,
      ...(query && { q: query }),
      ...(notebook && { notebook })
    });
    return this._read(`conversations${search}`);
  }

  /** A conversation as Markdown. */
  async markdown(id: string): Promise<string> {
    const path = `conversations/${encodeURIComponent(id)}/export?format=md`;
    return (await this._fetch(path, {})).text();
  }

  /** Save a notebook that is in a room to its file, once the room has all updates of these Yjs clients. */
  async saveRoom(notebook: string, clocks: ReadonlyMap<number, number>): Promise<void> {
    const path = URLExt.encodeParts(notebook);
    await this._send('POST', `notebooks/${path}/save`, { clocks: Object.fromEntries(clocks) });
  }

  /** The names of a kernel's variables, each with a short description; empty if they cannot be listed. */
  async variables(notebook: string): Promise<{ name: string; about: string }[]> {
    const body = { notebook, mode: 'read', input: {} };
    const response = await this._send('POST', 'tools/inspect_variables', body);
    const { text, is_error } = (await response.json()) as { text: string; is_error: boolean };
    return is_error ? [] : variablesIn(text);
  }

  /** An empty conversation if the server does not have it: it is stored with its first message. */
  async conversation(id: string): Promise<IStoredConversation> {
    try {
      return await this._read<IConversation>(`conversations/${encodeURIComponent(id)}`);
    } catch (error) {
      if (error instanceof RequestError && error.status === 404) {
        return { title: null, messages: [], state: null, usage: null };
      }
      throw error;
    }
  }

  /** The turns of a conversation that wait for an answer. */
  async waitingTurns(conversation: string): Promise<{ title: string | null }[]> {
    const path = `turns${URLExt.objectToQueryString({ conversation, state: 'waiting' })}`;
    return (await this._read<{ turns: { title: string | null }[] }>(path)).turns;
  }

  async rename(id: string, title: string): Promise<void> {
    await this._send('PATCH', `conversations/${encodeURIComponent(id)}`, { title });
  }

  async remove(id: string): Promise<void> {
    await this._fetch(`conversations/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  /** The current state of a run; `wake`: whether its end will start a turn. */
  run(runId: string): Promise<{ status: string; wake: boolean }> {
    return this._read(`runs/${encodeURIComponent(runId)}?save=false`);
  }

  /** Set whether the end of a run starts a turn in its conversation. */
  async wake(runId: string, wanted: boolean): Promise<void> {
    const method = wanted ? 'PUT' : 'DELETE';
    await this._fetch(`runs/${encodeURIComponent(runId)}/wake`, { method });
  }

  changes(turnId: string): Promise<IChange[]> {
    return this._read(`turns/${encodeURIComponent(turnId)}/changes`);
  }

  /** The requests sent to the model in a turn. */
  requests(turnId: string): Promise<ISentRequest[]> {
    return this._read(`turns/${encodeURIComponent(turnId)}/requests`);
  }

  /** The changes in a notebook that are neither kept nor undone, oldest first. */
  pending(notebook: string): Promise<IPendingChange[]> {
    return this._read(`notebooks/${URLExt.encodeParts(notebook)}/changes`);
  }

  /** Undo the changes of a turn, or only those to `cells`. */
  async undo(turnId: string, cells?: ICellRef[]): Promise<IUndone> {
    const response = await this._send('POST', `turns/${encodeURIComponent(turnId)}/undo`, {
      cells
    });
    this._changesReviewed.emit();
    return response.json() as Promise<IUndone>;
  }

  /** Mark the changes of a turn, or only those to `cells`, as reviewed. */
  async accept(turnId: string, cells?: ICellRef[]): Promise<void> {
    await this._send('POST', `turns/${encodeURIComponent(turnId)}/accept`, { cells });
    this._changesReviewed.emit();
  }

  /** Usage of a conversation so far, or null if the server does not have it. */
  async usage(id: string): Promise<IUsage | null> {
    return (await this.conversation(id)).usage;
  }

  /** Summarise a conversation now; false if there was nothing to summarise. */
  async compact(id: string): Promise<boolean> {
    const path = `conversations/${encodeURIComponent(id)}/compact`;
    const response = await this._send('POST', path, {});
    return ((await response.json()) as { compacted: boolean }).compacted;
  }

  /** The instruction files that apply to a notebook. */
  async instructions(notebook: string): Promise<IProjectInstructions[]> {
    const path = `instructions${URLExt.objectToQueryString({ notebook })}`;
    return (await this._read<{ instructions: IProjectInstructions[] }>(path)).instructions;
  }

  /** Store whether the user wants a text followed; fails if the file has changed since. */
  async trust({ source, digest }: IProjectInstructions, trusted: boolean): Promise<void> {
    await this._send('POST', 'instructions', { source, digest, trusted });
  }

  /** The most that the administrator lets models see. */
  async share(): Promise<Share> {
    return (await this._status()).share;
  }

  /** The most permissive mode that the administrator allows the user. */
  async freestMode(): Promise<Mode> {
    return (await this._status()).policy.max_mode;
  }

  /** Why the assistant cannot work in this server's notebooks; empty if it can. */
  async obstacle(): Promise<string> {
    const { carriers, notes } = await this._status();
    return carriers.length ? '' : notes[0];
  }

  /** The cells of a notebook whose outputs no longer follow from the code above. */
  async stale(notebook: string): Promise<IStaleCell[]> {
    const path = `notebooks/${URLExt.encodeParts(notebook)}?outputs=none`;
    const { cells } = await this._read<{
      cells: { id: string; stale: boolean; stale_why?: string }[];
    }>(path);
    return cells.flatMap(({ id, stale, stale_why }) =>
      stale ? [{ cell_id: id, why: stale_why ?? '' }] : []
    );
  }

  /** The last verification of a notebook; null if there isn't one. */
  async verification(notebook: string): Promise<IVerified | null> {
    const path = `notebooks/${URLExt.encodeParts(notebook)}?outputs=none`;
    return (await this._read<{ verified: IVerified | null }>(path)).verified;
  }

  /** Record the verification in the notebook's metadata; fails if its code has changed since. */
  async recordVerification(notebook: string): Promise<void> {
    await this._send('PUT', `notebooks/${URLExt.encodeParts(notebook)}/verified`, {});
  }

  /** Delete the last verification, also from the notebook's metadata. */
  async forgetVerification(notebook: string): Promise<void> {
    const path = `notebooks/${URLExt.encodeParts(notebook)}/verified`;
    await this._fetch(path, { method: 'DELETE' });
  }

  models(): Promise<IModels> {
    return this._read('models');
  }

  /** The provider's own list of models. */
  async listModels(provider: string): Promise<string[]> {
    const path = `providers/${encodeURIComponent(provider)}/models`;
    const response = await this._send('POST', path, {});
    return ((await response.json()) as { models: string[] }).models;
  }

  /** Store a key unless the provider rejects it; returns how many models it lists for the key, null if unknown. */
  async setKey(provider: string, key: string): Promise<number | null> {
    const path = `providers/${encodeURIComponent(provider)}/key`;
    const response = await this._send('PUT', path, { key, check: true });
    return ((await response.json()) as { models: number | null }).models;
  }

  /** Requested once per page, and again only after a failure. */
  private _status(): Promise<IServerStatus> {
    this._statusRead ??= this._read<IServerStatus>('status').catch((error: unknown) => {
      this._statusRead = null;
      throw error;
    });
    return this._statusRead;
  }

  private async _read<T>(path: string): Promise<T> {
    return (await this._fetch(path, {})).json() as Promise<T>;
  }

  private _send(method: string, path: string, body: object): Promise<Response> {
    return this._fetch(path, {
      method,
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' }
    });
  }

  private async _fetch(path: string, init: RequestInit): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, 'api/agent', path);
    const response = await ServerConnection.makeRequest(url, init, this._settings);
    if (!response.ok) {
      throw await refusal(response);
    }
    return response;
  }

  private readonly _changesReviewed = new Signal<this, void>(this);
  private _statusRead: Promise<IServerStatus> | null = null;
}
