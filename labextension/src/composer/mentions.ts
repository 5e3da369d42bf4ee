import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { AgentClient } from '../api/client';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Draft } from './draft';
import type { IOption } from './options';

/** Options shown of each kind. */
const MAX_PER_GROUP = 7;
/** Retries for a kernel without variables, and the pause between them in milliseconds. */
const KERNEL_RETRIES = 8;
const RETRY_PAUSE_MS = 400;

/** What can be attached with `@`: cells, the selection, notebooks, variables and files. */
export class Mentions {
  constructor(
    private readonly _draft: Draft,
    private readonly _notebooks: OpenNotebooks,
    private readonly _contents: Contents.IManager,
    private readonly _client: AgentClient,
    private readonly _trans: TranslationBundle
  ) {}

  /** Options from this page. */
  onPage(query: string): IOption[] {
    return [...this._selection(query), ...this._cells(query), ...this._openNotebooks(query)];
  }

  /** Options from the server, cached until `clearCache`. */
  onServer(query: string): Promise<IOption[]>[] {
    return [this._variables(query), this._files(query)];
  }

  /** Request everything from the server again from now on. */
  clearCache(): void {
    this._asked.clear();
  }

  private _selection(query: string): IOption[] {
    const { place } = this._notebooks;
    const attachment = place?.attachments.find(({ type }) => type === 'selection');
    const label = this._trans.__('selection');
    return attachment && label.startsWith(query.toLowerCase())
      ? [
          {
            group: this._trans.__('Selection'),
            label,
            about:
              attachment.type === 'selection'
                ? attachment.text.trim().split('\n', 1)[0].slice(0, 80)
                : '',
            insert: this._trans.__('the selection'),
            attachment
          }
        ]
      : [];
  }

  private _cells(query: string): IOption[] {
    const notebook = this._notebook;
    const wanted = normalizedLabel(query);
    const cells = this._notebooks
      .outline(notebook)
      .map(cell => ({ ...cell, label: this._trans.__('cell %1', cell.position) }));
    const isNamed = ({ label, position }: (typeof cells)[number]): boolean =>
      normalizedLabel(label).startsWith(wanted) || `${position}`.startsWith(wanted);
    const named = cells.filter(isNamed);
    const others = cells.filter(cell => !isNamed(cell) && has(cell.line, query));
    return [...named, ...others].slice(0, MAX_PER_GROUP).map(({ cell_id, label, line }) => ({
      group: this._trans.__('Cells'),
      label,
      about: line,
      insert: label,
      attachment: { type: 'cell', notebook, cell_id }
    }));
  }

  private _openNotebooks(query: string): IOption[] {
    return this._notebooks.paths
      .filter(path => path !== this._notebook && has(path, query))
      .slice(0, MAX_PER_GROUP)
      .map(path => this._file(path, this._trans.__('Open notebooks')));
  }

  private async _variables(query: string): Promise<IOption[]> {
    const notebook = this._notebook;
    if (!notebook) {
      return [];
    }
    const known = await this._cached('variables', () => this._listVariables(notebook));
    return known
      .filter(({ name }) => has(name, query))
      .slice(0, MAX_PER_GROUP)
      .map(({ name, about }) => ({
        group: this._trans.__('Variables'),
        label: name,
        about,
        insert: `\`${name}\``,
        attachment: { type: 'variable', name }
      }));
  }

  /** The variables of the kernel, which may be busy for a moment. */
  private async _listVariables(notebook: string): Promise<{ name: string; about: string }[]> {
    for (let left = KERNEL_RETRIES; left > 0; left--) {
      const known = await this._client.variables(notebook);
      if (known.length) {
        return known;
      }
      await new Promise(resolve => setTimeout(resolve, RETRY_PAUSE_MS));
    }
    return [];
  }

  private async _files(query: string): Promise<IOption[]> {
    const typed = query.slice(0, query.lastIndexOf('/') + 1);
    const base = typed.startsWith('/') ? '' : PathExt.dirname(this._notebook);
    const folder = PathExt.join(base, typed).replace(/^\/+|\/+$/g, '');
    const found = await this._cached(folder || '/', () => this._list(folder));
    return found
      .filter(({ name }) => has(name, query.slice(typed.length)))
      .slice(0, MAX_PER_GROUP)
      .map(({ name, path, type }) =>
        type === 'directory'
          ? {
              group: this._trans.__('Files'),
              label: `${name}/`,
              about: '',
              insert: `@${typed}${name}/`
            }
          : this._file(path, this._trans.__('Files'))
      );
  }

  private async _list(folder: string): Promise<Contents.IModel[]> {
    try {
      const found = await this._contents.get(folder, { content: true });
      return (found.content as Contents.IModel[])
        .filter(({ path }) => path !== this._notebook)
        .sort((one, other) => one.name.localeCompare(other.name));
    } catch {
      return []; // the folder does not exist, or its name is still being typed
    }
  }

  private _file(path: string, group: string): IOption {
    const insert = `\`${PathExt.basename(path)}\``;
    return {
      group,
      label: PathExt.basename(path),
      about: PathExt.dirname(path),
      insert,
      attachment: { type: 'file', path }
    };
  }

  private _cached<T>(key: string, ask: () => Promise<T[]>): Promise<T[]> {
    const asked = (this._asked.get(key) as Promise<T[]> | undefined) ?? ask().catch(() => []);
    this._asked.set(key, asked);
    return asked;
  }

  private get _notebook(): string {
    return this._draft.state.place?.notebook ?? '';
  }

  private readonly _asked = new Map<string, Promise<unknown[]>>();
}

/** The label in the form that is compared: "@cell3", "@Cell 3" and "@cell 3" are equal. */
function normalizedLabel(label: string): string {
  return label.toLowerCase().replace(/\s/g, '');
}

function has(text: string, query: string): boolean {
  return text.toLowerCase().includes(query.toLowerCase());
}
