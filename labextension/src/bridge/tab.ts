/**
 * The tab bridge keeps the server's replica of each notebook open here in sync with its document. A notebook without real-time collaboration lives in the browser. For each, one websocket carries raw Yjs updates as
 * binary frames and small control messages as JSON, in an order that makes both sides agree. The tab says hello and is
 * quiet until a tool attaches.
 */
import { URLExt } from '@jupyterlab/coreutils';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { YNotebook } from '@jupyter/ydoc';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import * as Y from 'yjs';
import type { Context } from './context';
import { ServerRunCells } from './serverRunCells';
import { keepPlace } from './roomPlace';
import type { ICellConflict } from '../tokens';
import { PageCells } from './pageCells';
import type { IFiles } from './fileRequests';
import { FileAccess } from './saves';
import { showUncovered } from './sections';
import { StructuralEdits } from './structure';
import type { IEdit } from './structure';
import { followTrust, trust } from './trust';
import { changeUnderUser } from './userPlace';

const PROTOCOL = 2;
const LONGEST_PAUSE = 10_000; // milliseconds
/** A connection that lasted this many milliseconds may end without counting as a failure. */
const LASTING = 10_000;

/** A request of the server to a tab. */
interface ITabRequest {
  op: 'attach' | 'sync' | 'edit' | 'takeback' | 'save' | 'trust' | 'revert' | 'detach' | 'ended';
  id?: number;
  cell?: string;
  cells?: string[];
  /** For `edit`. */
  edit?: IEdit;
  /** For `takeback`: the keys of edits. */
  keys?: string[];
}

/** The link of one open notebook, shared by all its views. */
export class TabLink implements IDisposable {
  constructor(private readonly _options: TabLink.IOptions) {
    const { context } = _options;
    context.pathChanged.connect(this._onPathChanged, this);
    const views = (): Notebook[] => _options.views().map(panel => panel.content);
    void context.ready.then(() => {
      showUncovered(context.model, views);
      if (context.model.collaborative) {
        followTrust(context.model);
        keepPlace(context.model, views);
      } else {
        this._file = new FileAccess(context, _options.files, this._cells, _options.onConflicts);
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
    this._socket?.close(1000, 'closed'); // closed by the user: the server does not wait for this page
    this._structure.dispose();
    this._cells.dispose();
    Signal.clearData(this);
  }

  /** Tell the server that the user is in this notebook, and where; `cell`: only the active cell changed. */
  tell(op: 'active' | 'cell'): void {
    this._send({ op, cell: this._situation().cell });
  }

  /** Tell the server that the user runs a cell: further output of the server's own run is not shown there. */
  ran(cell: string): void {
    this._serverRuns.take(cell);
    this._send({ op: 'ran', cell });
  }

  /** Run an operation on this notebook's file while it is neither saved nor loaded. */
  enqueue<T>(work: () => Promise<T>): Promise<T> {
    return this._file ? this._file.enqueue(work) : work();
  }

  /** The file of this notebook; null in a collaboration room. */
  get file(): FileAccess | null {
    return this._file;
  }

  /** Connect now, unless there is a connection or the notebook is in a collaboration room. */
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
      const unsaved = (this._sentUnsaved = this._file?.isAhead ?? false);
      this._send({ ...hello, running: this._serverRuns.ids, unsaved });
      if (isBack) {
        // Others may have changed the file in the meantime. If it cannot be read, the next save checks again.
        void this._file?.reconcile(this._options.autosave).catch(() => undefined);
      }
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      this._attempt = 0;
      if (typeof data === 'string') {
        void this._answer(JSON.parse(data) as ITabRequest);
      } else {
        this._apply(new Uint8Array(data));
      }
    };
    socket.onclose = () => {
      this._socket = null;
      this._sentUnsaved = null;
      this._file?.hasLostServer();
      this._ydoc.off('update', this._forward);
      if (Date.now() - begun > LASTING) {
        this._attempt = 0;
      }
      this._connectAgain(this._attempt++);
    };
  }

  /** The first time immediately: in a background tab a pause takes a second, or a minute. */
  private _connectAgain(attempt: number): void {
    if (attempt) {
      const pause = Math.min(200 * 2 ** attempt, LONGEST_PAUSE);
      this._timer = window.setTimeout(() => this.connect(), pause);
    } else {
      this.connect();
    }
  }

  private async _answer(request: ITabRequest): Promise<void> {
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

  /** Serve a request. Returns the fields of the answer that add to, or override, the situation. */
  private async _serve({ op, cell, cells, edit, keys }: ITabRequest): Promise<object> {
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
      case 'sync': // its answer is sent after everything applied before
        break;
      case 'edit': // before the first await, so within this tick
        return edit ? this._structure.carryOut(edit) : {};
      case 'takeback':
        this._structure.takeBack(keys ?? []);
        break;
      case 'save':
        if (context.model.dirty && autosave()) {
          return { hash: await this._file?.save(), dirty: false, saving: false };
        }
        break;
      case 'revert':
        await this._file?.reconcile(autosave);
        break;
      case 'trust': // the user approved the run, so its outputs count as those of a cell they ran
        for (const model of context.model.cells) {
          if (model.id === cell) {
            trust(model);
          }
        }
        break;
      case 'ended': // cells from our hello without a running server run
        this._serverRuns.end(cells ?? [], context.model);
        break;
      default:
        throw new Error(`This version of the extension does not know "${String(op)}".`);
    }
    return {};
  }

  /** The facts that the server needs before it changes or saves anything. */
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

  private _apply(update: Uint8Array): void {
    const apply = (): void => Y.applyUpdate(this._ydoc, update, this);
    changeUnderUser(this._options.view()?.content, () =>
      this._serverRuns.during(this._ydoc, apply)
    );
  }

  /** Tell the server whether this page has unsaved changes, in case it disconnects. */
  private _tellUnsaved(): void {
    const unsaved = this._file?.isAhead ?? false;
    if (this._sentUnsaved !== null && unsaved !== this._sentUnsaved) {
      this._sentUnsaved = unsaved;
      this._send({ op: 'unsaved', unsaved });
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

  /** Looked up each time: shared types become invalid at a revert. */
  private get _ydoc(): Y.Doc {
    return (this._options.context.model.sharedModel as YNotebook).ydoc;
  }

  private readonly _serverRuns = new ServerRunCells();
  private readonly _cells = new PageCells({
    model: () => this._options.context.model,
    views: () => this._options.views().map(panel => panel.content),
    isServerRun: id => this._serverRuns.ids.includes(id)
  });
  private readonly _structure = new StructuralEdits(this._cells);
  private _file: FileAccess | null = null;
  private _socket: WebSocket | null = null;
  private _attempt = 0;
  private _wasOpen = false;
  private _sentUnsaved: boolean | null = null; // before the hello
  private _timer = 0;
  private _isDisposed = false;
}

export namespace TabLink {
  /** Dependencies of a link. */
  export interface IOptions {
    context: Context;
    settings: ServerConnection.ISettings;
    /** Jupyter's files, past what `watchFiles` changes. */
    files: IFiles;
    /** The id of this page load. */
    client: string;
    /** The view of the notebook that the user last had in front. */
    view: () => NotebookPanel | undefined;
    /** All views of the notebook. */
    views: () => NotebookPanel[];
    /** Whether the user has enabled autosave in JupyterLab. */
    autosave: () => boolean;
    /** Called with the cells whose versions in page and file could not be merged. */
    onConflicts: (conflicts: readonly ICellConflict[]) => void;
  }
}
