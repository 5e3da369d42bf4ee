import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { ContentsManager, ServiceManager } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { AgentClient } from '../api/client';
import type { Context } from './context';
import type { IFiles } from './fileRequests';
import { watchFiles } from './drive';
import { TabLink } from './tab';
import type { ICellConflict, ITabBridge } from '../tokens';

/** Links every notebook in this page to the server, and reports where the user is. */
export class TabBridge implements ITabBridge {
  constructor(
    private readonly _notebooks: INotebookTracker,
    private readonly _services: ServiceManager.IManager,
    readonly client: string,
    private readonly _autosave: () => boolean
  ) {
    const { contents, serverSettings } = _services;
    const drive = (contents as Partial<ContentsManager>).defaultDrive ?? contents;
    this._files = watchFiles(drive, this._links, new AgentClient(serverSettings));
    _notebooks.widgetAdded.connect(this._link, this);
    _notebooks.forEach(panel => this._link(_notebooks, panel));
    _notebooks.currentChanged.connect(this._touch, this);
    NotebookActions.executionScheduled.connect(this._onRun, this);
    for (const event of ['keydown', 'pointerdown']) {
      window.addEventListener(event, this._act, { capture: true, passive: true });
    }
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
      files: this._files,
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

  private readonly _files: IFiles;
  private readonly _conflicted = new Signal<
    this,
    { notebook: string; cells: readonly ICellConflict[] }
  >(this);
  private readonly _renamed = new Signal<this, { former: string; notebook: string }>(this);
  private readonly _links = new Map<Context, TabLink>();
  private _lastAct = 0;
}
