import type { TranslationBundle } from '@jupyterlab/translation';
import type { AgentClient } from '../api/client';
import type { ITool } from '../api/tools';
import { Store } from '../store';
import { ofService } from '../api/tools';

/** Milliseconds after which tools that could not be read are asked for again. */
const RETRY = 5000;

/** The assistant's tools by name, with the words for their calls. */
export class Tools extends Store<ReadonlyMap<string, ITool>> {
  constructor(
    private readonly _client: AgentClient,
    private readonly _trans: TranslationBundle
  ) {
    super(new Map());
  }

  /** The tool with a name, current or former; undefined until it was read, or if the server does not have it. */
  readonly find = (name: string): ITool | undefined => {
    const tool = this.state.get(name) ?? ofService(name, this._trans);
    if (!tool && !this._missed.has(name)) {
      this._missed.add(name); // tools may come while the server runs
      void this.read();
    }
    return tool;
  };

  /** Read the tools, once at a time. */
  read(): Promise<void> {
    this._reading ??= this._read().finally(() => (this._reading = null));
    return this._reading;
  }

  private async _read(): Promise<void> {
    const tools = await this._client.tools().catch(() => null); // calls are then shown by their tools' names
    if (!tools) {
      setTimeout(() => this._missed.clear(), RETRY);
      return;
    }
    const byName = tools.flatMap(listed => {
      const tool = { ...listed, words: listed.words ?? [] }; // none from a server that was not restarted
      return [tool.name, ...(tool.former_names ?? [])].map((name): [string, ITool] => [name, tool]);
    });
    this.set(new Map(byName));
  }

  /** Names that were not found. */
  private readonly _missed = new Set<string>();
  private _reading: Promise<void> | null = null;
}
