import type { Cell } from '@jupyterlab/cells';
import type {
  INotebookModel,
  INotebookTracker,
  Notebook,
  NotebookPanel
} from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Contents, ContentsManager, ServiceManager } from '@jupyterlab/services';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { Signal } from '@lumino/signaling';
import { AgentClient } from '../api/client';
import { RoomFile } from './roomFile';
import type { FileAccess } from './saves';
import { TabLink } from './tab';
import type { ICellConflict, ITabBridge } from '../tokens';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** Links every notebook in this page to the server, and reports where the user is. */
export class TabBridge implements ITabBridge {
  constructor(
    private readonly _notebooks: INotebookTracker,
    private readonly _services: ServiceManager.IManager,
    readonly client: string,
    private readonly _autosave: () => boolean
  ) {
    this._agent = new AgentClient(_services.serverSettings);
    _notebooks.widgetAdded.connect(this._link, this);
    _notebooks.forEach(panel => this._link(_notebooks, panel));
    _notebooks.currentChanged.connect(this._touch, this);
    NotebookActions.executionScheduled.connect(this._onRun, this);
    for (const event of ['keydown', 'pointerdown']) {
      window.addEventListener(event, this._act, { capture: true, passive: true });
    }
    this._queueRenames(_services.contents);
    this._watchSaves(_services.contents);
    window.addEventListener('focus', this._act);
    window.addEventListener('online', this._reconnect);
    document.addEventListener('visibilitychange', this._reconnect);
  }

  get conflicted(): ITabBridge['conflicted'] {
    return this._conflicted;
  }

  get renamed(): ITabBridge['renamed'] {
    return this._renamed;
  }

  /** Keep a notebook's file from being saved while it, or a folder that contains it, is renamed. */
  private _queueRenames(contents: Contents.IManager): void {
    const rename = contents.rename.bind(contents);
    contents.rename = (path, newPath) => {
      const links = [...this._links]
        .filter(([context]) => context.path === path || context.path.startsWith(`${path}/`))
        .map(([, link]) => link);
      return links.reduceRight<() => Promise<Contents.IModel>>(
        (work, link) => () => link.enqueue(work),
        () => rename(path, newPath)
      )();
    };
  }

  /** Keep changes that others make between JupyterLab's check of a notebook's file and its save. */
  private _watchSaves(contents: Contents.IManager): void {
    const find = (path: string): [Context, TabLink] | undefined =>
      [...this._links].find(([context]) => context.path === path);
    const of = (path: string): FileAccess | null => find(path)?.[1].file ?? null;
    const roomOf = (path: string): RoomFile | null => {
      const [context] = find(path) ?? [];
      return context?.model.collaborative ? new RoomFile(context, this._agent) : null;
    };
    const get = contents.get.bind(contents);
    contents.get = (path, options) => {
      const file = options?.content === false ? (of(path) ?? roomOf(path)) : null;
      return file ? file.look(() => get(path, options)) : get(path, options);
    };
    const save = contents.save.bind(contents);
    contents.save = (path, options) => {
      const file = options?.type === 'notebook' ? of(path) : null;
      return file ? file.write(options ?? {}, changed => save(path, changed)) : save(path, options);
    };
    const drive = (contents as Partial<ContentsManager>).defaultDrive;
    if (drive) {
      const put = drive.save.bind(drive); // or to the room, if a contents provider is named
      drive.save = (path, options) => {
        const isPut = options?.type === 'notebook' && !options.contentProviderId;
        const room = isPut ? roomOf(path) : null;
        const look = (): Promise<Contents.IModel> =>
          drive.get(path, { content: false, hash: true });
        return room ? room.write(look, () => put(path, options)) : put(path, options);
      };
    }
  }

  private _link(_: INotebookTracker, panel: NotebookPanel): void {
    const { context, content } = panel;
    const { contents } = this._services;
    content.activeCellChanged.connect(() => this._links.get(context)?.tell('cell'));
    if (this._links.has(context) || contents.driveName(context.path)) {
      return; // a second view of the same notebook, or a file that is not on our server
    }
    const views = (): NotebookPanel[] =>
      this._notebooks.filter(widget => widget.context === context);
    const view = (): NotebookPanel | undefined => {
      const current = this._notebooks.currentWidget;
      return current?.context === context ? current : views()[0];
    };
    const link = new TabLink({
      context,
      settings: this._services.serverSettings,
      contents,
      client: this.client,
      view,
      views,
      autosave: this._autosave,
      onConflicts: cells => this._conflicted.emit({ notebook: context.path, cells })
    });
    let former = context.path;
    context.pathChanged.connect((_, notebook) => {
      this._renamed.emit({ former, notebook });
      former = notebook;
    });
    this._links.set(context, link);
    context.disposed.connect(this._unlink, this);
  }

  private _unlink(context: Context): void {
    this._links.get(context)?.dispose();
    this._links.delete(context);
  }

  private _onRun(_: unknown, { notebook, cell }: { notebook: Notebook; cell: Cell }): void {
    for (const [context, link] of this._links) {
      if (context.model === notebook.model) {
        link.ran(cell.model.id);
      }
    }
  }

  private _touch(): void {
    const context = this._notebooks.currentWidget?.context;
    if (context && document.visibilityState === 'visible') {
      this._links.get(context)?.tell('active');
    }
  }

  /** The user did something; reported at most once a second. */
  private readonly _act = (): void => {
    if (Date.now() - this._lastAct > 1000) {
      this._lastAct = Date.now();
      this._touch();
    }
  };

  /** The user or the network is back: do not wait for the pause to end. */
  private readonly _reconnect = (): void => {
    this._links.forEach(link => link.connect());
    this._touch();
  };

  private readonly _agent: AgentClient;
  private readonly _conflicted = new Signal<
    this,
    { notebook: string; cells: readonly ICellConflict[] }
  >(this);
  private readonly _renamed = new Signal<this, { former: string; notebook: string }>(this);
  private readonly _links = new Map<Context, TabLink>();
  private _lastAct = 0;
}
