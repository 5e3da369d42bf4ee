/**
 * The tab bridge: keeps the server's replica of each notebook that is open here in step with its document.
 *
 * A notebook without real-time collaboration lives in the browser. For each, one websocket carries raw Yjs
 * updates as binary frames and small control messages as JSON; the order of frames is what makes both sides
 * agree. The tab says hello and is quiet until a tool attaches.
 */
import { URLExt } from '@jupyterlab/coreutils';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents, ServerConnection } from '@jupyterlab/services';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { YNotebook } from '@jupyter/ydoc';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import * as Y from 'yjs';
import { ServerRunCells } from './serverRunCells';
import { keepPlace } from './roomPlace';
import type { ICellConflict } from '../tokens';
import { PageCells } from './pageCells';
import { FileAccess } from './saves';
import { StructuralEdits } from './structure';
import type { IEdit } from './structure';
import { followTrust, trust } from './trust';

const PROTOCOL = 2;
const LONGEST_PAUSE = 10_000; // milliseconds
/** A connection that was there for so many milliseconds is no sign of trouble when it ends. */
const LASTING = 10_000;

type Context = DocumentRegistry.IContext<INotebookModel>;

/** What the server asks of a tab. */
interface IRequest {
  op: 'attach' | 'sync' | 'edit' | 'takeback' | 'save' | 'trust' | 'revert' | 'detach' | 'ended';
  id?: number;
  cell?: string;
  cells?: string[];
  /** Of `edit`. */
  edit?: IEdit;
  /** Of `takeback`: the keys of edits. */
  keys?: string[];
}

/** The link of one open notebook, shared by all its views. */
export class TabLink implements IDisposable {
  constructor(private readonly _options: TabLink.IOptions) {
    const { context } = _options;
    context.pathChanged.connect(this._onPathChanged, this);
    void context.ready.then(() => {
      if (context.model.collaborative) {
        followTrust(context.model);
        keepPlace(context.model, () => _options.views().map(panel => panel.content));
      } else {
        this._file = new FileAccess(context, _options.contents, this._cells, _options.onConflicts);
        this._file.aheadChanged.connect(this._tellUnsaved, this);
        this.connect();
      }
    });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._ydoc.off('update', this._forward);
    this._socket?.close(1000, 'closed'); // by the user: the server does not wait for this page
    this._structure.dispose();
    this._cells.dispose();
    Signal.clearData(this);
  }

  /** Tell the server that the user is in this notebook, and where; `cell`: they, or we, only went there. */
  tell(op: 'active' | 'cell'): void {
    this._send({ op, cell: this._situation().cell });
  }

  /** Tell the server that the user runs a cell: what a run of its own still puts out there is not shown. */
  ran(cell: string): void {
    this._lent.take(cell);
    this._send({ op: 'ran', cell });
  }

  /** Do something to the file of this notebook while it is neither saved nor loaded. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this._file ? this._file.inTurn(work) : work();
  }

  /** The file of this notebook; null in a collaboration room. */
  get file(): FileAccess | null {
    return this._file;
  }

  /** Connect now, if there is no connection and this is not the business of a collaboration room. */
  connect(): void {
    clearTimeout(this._timer);
    const { context, settings, client } = this._options;
    if (this.isDisposed || this._socket || !context.isReady || context.model.collaborative) {
      return;
    }
    const { wsUrl, token, appendToken, WebSocket } = settings;
    const query = appendToken && token ? URLExt.objectToQueryString({ token }) : '';
    const socket = new WebSocket(URLExt.join(wsUrl, 'api/agent/tab') + query);
    this._socket = socket;
    socket.binaryType = 'arraybuffer';
    const begun = Date.now();
    const isBack = this._attempt > 0 || this._wasOpen;
    socket.onopen = () => {
      this._wasOpen = true;
      const { version } = context.model.sharedModel;
      const { cell } = this._situation();
      const hello = { op: 'hello', protocol: PROTOCOL, path: context.path, client, version, cell };
      this._told = this._file?.isAhead ?? false;
      this._send({ ...hello, running: this._lent.ids, unsaved: this._told });
      if (isBack) {
        // Others may have worked in the file meanwhile. Where it cannot be read, the next save looks again.
        void this._file?.meet(this._options.autosave).catch(() => undefined);
      }
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      this._attempt = 0;
      if (typeof data === 'string') {
        void this._answer(JSON.parse(data) as IRequest);
      } else {
        this._apply(new Uint8Array(data));
      }
    };
    socket.onclose = () => {
      this._socket = null;
      this._told = null;
      this._ydoc.off('update', this._forward);
      if (Date.now() - begun > LASTING) {
        this._attempt = 0;
      }
      this._connectAgain(this._attempt++);
    };
  }

  /** At once the first time: in a tab in the background a pause is a second, or a minute. */
  private _connectAgain(attempt: number): void {
    if (attempt) {
      const pause = Math.min(200 * 2 ** attempt, LONGEST_PAUSE);
      this._timer = window.setTimeout(() => this.connect(), pause);
    } else {
      this.connect();
    }
  }

  private async _answer(request: IRequest): Promise<void> {
    let result: object;
    try {
      const facts = await this._serve(request);
      result = { ...this._situation(), ...facts };
    } catch (error) {
      result = { error: String(error) };
    }
    if (request.id !== undefined) {
      this._send({ re: request.id, ...result });
    }
  }

  /** Do what is asked. Returns what the answer says besides, or other than, the situation. */
  private async _serve({ op, cell, cells, edit, keys }: IRequest): Promise<object> {
    const { context, autosave } = this._options;
    switch (op) {
      case 'attach': // snapshot and subscription in one tick, so that no update falls between
        this._ydoc.off('update', this._forward);
        this._ydoc.on('update', this._forward);
        this._socket?.send(Y.encodeStateAsUpdate(this._ydoc));
        break;
      case 'detach':
        this._ydoc.off('update', this._forward);
        break;
      case 'sync': // its answer comes behind all that was applied before
        break;
      case 'edit': // before the first pause, so within this tick
        return edit ? this._structure.carryOut(edit) : {};
      case 'takeback':
        this._structure.takeBack(keys ?? []);
        break;
      case 'save':
        if (context.model.dirty && autosave()) {
          const hash = await this._file?.save().written;
          return { dirty: false, saving: false, hash }; // all that was there is saved, whatever was typed since
        }
        break;
      case 'revert':
        await this._file?.meet(autosave);
        break;
      case 'trust': // the user approved the run, so its output counts as that of a cell they ran
        for (const model of context.model.cells) {
          if (model.id === cell) {
            trust(model);
          }
        }
        break;
      case 'ended': // of the cells in our hello those in which nothing of the server's runs
        this._lent.end(cells ?? [], context.model);
        break;
      default:
        throw new Error(`This version of the extension does not know "${String(op)}".`);
    }
    return {};
  }

  /** What the server has to know before it changes or saves anything. */
  private _situation(): { cell: string | null; [fact: string]: unknown } {
    const { context } = this._options;
    const { writable } = context.contentsModel ?? {};
    const notebook = this._options.view()?.content;
    return {
      dirty: context.model.dirty,
      saving: this._file?.isBusy ?? false,
      hash: this._file?.hash,
      writable,
      cell: notebook?.activeCell?.model.id ?? null,
      editing: notebook?.mode === 'edit'
    };
  }

  /** JupyterLab 4.6 loses the active cell when one update adds and removes cells: put the user back. */
  private _apply(update: Uint8Array): void {
    const notebook = this._options.view()?.content;
    const id = notebook?.activeCell?.model.id;
    this._lent.during(this._ydoc, () => Y.applyUpdate(this._ydoc, update, this));
    if (notebook && id && notebook.activeCell?.model.id !== id) {
      const index = notebook.widgets.findIndex(cell => cell.model.id === id);
      if (index >= 0) {
        notebook.activeCellIndex = index;
      }
    }
  }

  /** Should this page go away now, the server knows whether it has something to come back with. */
  private _tellUnsaved({ isAhead }: FileAccess): void {
    if (this._told !== null && isAhead !== this._told) {
      this._told = isAhead;
      this._send({ op: 'unsaved', unsaved: isAhead });
    }
  }

  private _onPathChanged(_: Context, path: string): void {
    this._send({ op: 'path', path });
  }

  private readonly _forward = (update: Uint8Array, origin: unknown): void => {
    if (origin !== this) {
      this._socket?.send(update);
    }
  };

  private _send(message: object): void {
    if (this._socket?.readyState === 1) {
      this._socket.send(JSON.stringify(message));
    }
  }

  /** Looked up each time: shared types die at a revert. */
  private get _ydoc(): Y.Doc {
    return (this._options.context.model.sharedModel as YNotebook).ydoc;
  }

  private readonly _lent = new ServerRunCells();
  private readonly _cells = new PageCells({
    model: () => this._options.context.model,
    views: () => this._options.views().map(panel => panel.content),
    isLent: id => this._lent.ids.includes(id)
  });
  private readonly _structure = new StructuralEdits(this._cells);
  private _file: FileAccess | null = null;
  private _socket: WebSocket | null = null;
  private _attempt = 0;
  private _wasOpen = false;
  private _told: boolean | null = null; // before the hello
  private _timer = 0;
  private _isDisposed = false;
}

export namespace TabLink {
  /** What a link needs. */
  export interface IOptions {
    context: Context;
    settings: ServerConnection.ISettings;
    contents: Contents.IManager;
    /** The id of this page load. */
    client: string;
    /** The view of the notebook that the user last had in front. */
    view: () => NotebookPanel | undefined;
    /** All views of the notebook. */
    views: () => NotebookPanel[];
    /** Whether the user lets JupyterLab save unasked. */
    autosave: () => boolean;
    /** Called with the cells of which page and file could not both be kept. */
    onConflicts: (conflicts: readonly ICellConflict[]) => void;
  }
}
