import type { INotebookContent } from '@jupyterlab/nbformat';
import { ServerConnection, type Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

interface IFile {
  content: INotebookContent | 'broken';
  hash: string;
  /** Milliseconds. */
  modified: number;
}

export const code = (...sources: string[]): INotebookContent => ({
  metadata: {},
  nbformat: 4,
  nbformat_minor: 5,
  cells: sources.map((source, at) => ({
    id: `c${at}`,
    cell_type: 'code',
    source,
    outputs: [],
    execution_count: null,
    metadata: {}
  }))
});

/** A drive with files in memory, as strict as Jupyter's with our `PageSaves`. */
export class Disk {
  readonly name = '';
  readonly serverSettings = ServerConnection.makeSettings();
  readonly fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  /** The requests that have arrived, in order. */
  readonly requests: string[] = [];
  /** Called with each request before it is served. */
  before: (request: string) => unknown = () => undefined;
  /** Called with each request that was served, before it is answered. */
  after: (request: string) => unknown = () => undefined;
  /** Called with each request as its answer arrives. */
  answered: (request: string) => void = () => undefined;
  /** Whether the server answers with hashes. */
  hasHashes = true;
  /** Whether it compares those of saves. */
  compares = true;
  private readonly _files = new Map<string, IFile>();
  private readonly _checkpoints = new Map<string, IFile>();
  private _time = Date.parse('2026-01-01');

  /** Another program writes the file; as of an earlier time if `earlier`. */
  write(path: string, content: IFile['content'], { earlier = false } = {}): IFile {
    this._time += 1000;
    const modified = earlier ? Date.parse('2025-01-01') : this._time;
    const file = { content, hash: `h${this._time}`, modified };
    this._files.set(path, file);
    return file;
  }

  /** The file is as it was at some time. */
  put(path: string, file: IFile): void {
    this._files.set(path, file);
  }

  delete(path: string): Promise<void> {
    this._files.delete(path);
    return Promise.resolve();
  }

  /** The texts of the cells in each file. */
  get texts(): Record<string, string[] | 'broken'> {
    const entries = [...this._files].map(([path, { content }]) => {
      const texts = content === 'broken' ? content : content.cells.map(({ source }) => source);
      return [path, texts] as const;
    });
    return Object.fromEntries(entries) as Record<string, string[] | 'broken'>;
  }

  get(path: string, options: Contents.IFetchOptions = {}): Promise<Contents.IModel> {
    const { content, hash, contentProviderId } = options;
    if (contentProviderId) {
      return this.get(path, { ...options, contentProviderId: undefined }); // as that of jupyter-collaboration
    }
    return this._serve(`GET ${content === false ? 'hash' : 'content'}`, () => {
      const file = this._find(path);
      if (content !== false && file.content === 'broken') {
        throw failure(400, 'Unreadable notebook');
      }
      return this._model(path, file, content !== false, !!hash && this.hasHashes);
    });
  }

  save(
    path: string,
    options: Partial<Contents.IModel> & Contents.IContentProvisionOptions = {}
  ): Promise<Contents.IModel> {
    const { contentProviderId, ...rest } = options;
    if (contentProviderId) {
      return this.save(path, { ...options, contentProviderId: undefined });
    }
    const { jupyter_agent_seen: seen } = rest as { jupyter_agent_seen?: string };
    const sent = structuredClone(options.content as INotebookContent);
    return this._serve('PUT', () => {
      const isSeen = (this._files.get(path)?.hash ?? '') === seen;
      if (this.compares && this.hasHashes && seen !== undefined && !isSeen) {
        throw failure(409, 'jupyter_agent: another program wrote this notebook');
      }
      const file = this.write(path, sent);
      const isOurs = seen !== undefined && this.compares && this.hasHashes;
      const model = this._model(path, file, false, isOurs, isOurs);
      this.fileChanged.emit({ type: 'save', oldValue: null, newValue: model });
      return model;
    });
  }

  rename(path: string, newPath: string): Promise<Contents.IModel> {
    return this._serve('PATCH', () => {
      const file = this._find(path);
      this._files.delete(path);
      this._files.set(newPath, file);
      const model = this._model(newPath, file, false, false);
      this.fileChanged.emit({ type: 'rename', oldValue: { path }, newValue: model });
      return model;
    });
  }

  createCheckpoint(path: string): Promise<Contents.ICheckpointModel> {
    return this._serve('checkpoint', () => {
      this._checkpoints.set(path, this._find(path));
      return { id: 'checkpoint', last_modified: '' };
    });
  }

  listCheckpoints(path: string): Promise<Contents.ICheckpointModel[]> {
    const has = this._checkpoints.has(path);
    return Promise.resolve(has ? [{ id: 'checkpoint', last_modified: '' }] : []);
  }

  restoreCheckpoint(path: string): Promise<void> {
    return this._serve('restore', () => {
      this._files.set(path, this._checkpoints.get(path) as IFile);
    });
  }

  private async _serve<T>(request: string, serve: () => T): Promise<T> {
    await rest();
    this.requests.push(request);
    await this.before(request);
    const answer = serve();
    await this.after(request);
    await rest();
    this.answered(request);
    return answer;
  }

  private _find(path: string): IFile {
    const file = this._files.get(path);
    if (!file) {
      throw failure(404, 'No such file');
    }
    return file;
  }

  private _model(
    path: string,
    file: IFile,
    content: boolean,
    hashed: boolean,
    saved = false
  ): Contents.IModel {
    return {
      path,
      name: path,
      type: 'notebook',
      format: content ? 'json' : null,
      content: content ? structuredClone(file.content) : null,
      writable: true,
      created: new Date(0).toISOString(),
      last_modified: new Date(file.modified).toISOString(),
      mimetype: '',
      ...(hashed && { hash: file.hash, hash_algorithm: 'sha256' }),
      ...(saved && { jupyter_agent_written: file.hash })
    };
  }
}

/** The next task of the page. */
export const rest = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

function failure(status: number, message: string): Error {
  return new ServerConnection.ResponseError({ status } as Response, `HTTP ${status} (${message})`);
}
