import type { ISharedCodeCell } from '@jupyter/ydoc';
import { YNotebook } from '@jupyter/ydoc';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import * as Y from 'yjs';
import type { IFiles } from '../../src/bridge/fileRequests';
import { TabLink } from '../../src/bridge/tab';

/** The server's end of the socket. */
class Socket {
  static last: Socket;
  readyState = 1;
  binaryType = '';
  sent: (string | Uint8Array)[] = [];
  onopen!: () => void;
  onclose!: () => void;
  onmessage!: (event: { data: string | ArrayBuffer }) => void;

  constructor(readonly url: string) {
    Socket.last = this;
  }

  send(frame: string | Uint8Array): void {
    this.sent.push(frame);
  }

  close(): void {
    this.readyState = 3;
    this.onclose();
  }

  async ask(request: object): Promise<void> {
    this.onmessage({ data: JSON.stringify(request) });
    await new Promise(resolve => setTimeout(resolve));
  }

  get messages(): Record<string, unknown>[] {
    return this.sent
      .filter(frame => typeof frame === 'string')
      .map(frame => JSON.parse(frame) as Record<string, unknown>);
  }

  /** How many binary frames were sent. */
  get updates(): number {
    return this.sent.filter(frame => typeof frame !== 'string').length;
  }

  /** The server's replica after all binary frames so far. */
  get replica(): YNotebook {
    const replica = new YNotebook();
    for (const frame of this.sent) {
      if (typeof frame !== 'string') {
        Y.applyUpdate(replica.ydoc, frame);
      }
    }
    return replica;
  }
}

function open(options: { collaborative?: boolean } = {}) {
  const notebook = YNotebook.create({ data: {} });
  notebook.addCell({ cell_type: 'code', id: 'b2', source: 'x = 1' });
  notebook.clearUndoHistory();
  const context = {
    path: 'sales.ipynb',
    isReady: true,
    ready: Promise.resolve(),
    contentsModel: { hash: 'h', last_modified: 'm', writable: true },
    model: {
      dirty: true,
      toJSON: () => notebook.toJSON(),
      collaborative: options.collaborative ?? false,
      sharedModel: notebook,
      cells: Object.assign(
        [{ id: 'b2', trusted: false, metadataChanged: new Signal<object, unknown>({}) }],
        { changed: new Signal<object, unknown>({}) }
      )
    },
    saved: 0,
    saveState: new Signal<object, string>({}),
    save() {
      this.saved++;
      return Promise.resolve();
    }
  };
  const look = jest.fn(() => Promise.resolve({ hash: 'h', last_modified: 'm' }));
  const link = new TabLink({
    context: Object.assign(context, {
      pathChanged: new Signal<object, string>(context)
    }) as unknown as DocumentRegistry.IContext<INotebookModel>,
    settings: ServerConnection.makeSettings({
      wsUrl: 'ws://lab/base/',
      appendToken: false,
      WebSocket: Socket as unknown as typeof WebSocket
    }),
    files: { get: look } as unknown as IFiles,
    client: 'page-1',
    view: () => undefined,
    views: () => [],
    autosave: () => true,
    onConflicts: () => undefined
  });
  return { context, notebook, link, look };
}

async function connect(options = {}) {
  const page = open(options);
  await page.context.ready;
  Socket.last.onopen();
  return { ...page, socket: Socket.last };
}

describe('TabLink', () => {
  it('says hello, and then whether it has unsaved work, until a tool attaches', async () => {
    const { notebook, socket, link } = await connect();
    notebook.getCell(0).setSource('x = 2');
    expect(socket.url).toBe('ws://lab/base/api/agent/tab');
    const hello = {
      op: 'hello',
      protocol: 2,
      path: 'sales.ipynb',
      client: 'page-1',
      running: [],
      unsaved: false,
      cell: null
    };
    notebook.getCell(0).setSource('x = 3');
    expect(socket.messages).toEqual([
      { ...hello, version: notebook.version },
      { op: 'unsaved', unsaved: true }
    ]);
    expect(socket.sent).toHaveLength(2);
    link.dispose();
  });

  it('gives the whole document at an attach, and then all that is typed', async () => {
    const { notebook, socket, link } = await connect();
    await socket.ask({ op: 'attach', id: 1 });
    expect(socket.replica.getCell(0).getSource()).toBe('x = 1');
    notebook.getCell(0).updateSource(5, 5, ' # typed');
    expect(socket.replica.getCell(0).getSource()).toBe('x = 1 # typed');
    expect(socket.messages.find(({ re }) => re === 1)).toEqual({
      re: 1,
      dirty: true,
      saving: false,
      hash: 'h',
      writable: true,
      cell: null,
      editing: false
    });
    link.dispose();
  });

  it('takes in the edits of the server without sending them back, and leaves them out of the undo', async () => {
    const { notebook, socket, link } = await connect();
    await socket.ask({ op: 'attach', id: 1 });
    const updates = socket.updates;
    const { replica } = socket;
    const before = Y.encodeStateVector(replica.ydoc);
    replica.getCell(0).updateSource(4, 5, '22');
    const update = Y.encodeStateAsUpdate(replica.ydoc, before);
    socket.onmessage({ data: update.slice().buffer });
    expect(notebook.getCell(0).getSource()).toBe('x = 22');
    expect(socket.updates).toBe(updates);
    notebook.undo();
    expect(notebook.getCell(0).getSource()).toBe('x = 22');
    link.dispose();
  });

  it('answers in order, saves, trusts, and refuses what it does not know', async () => {
    const { context, socket, link } = await connect();
    await socket.ask({ op: 'sync', id: 1 });
    await socket.ask({ op: 'save', id: 2 });
    await socket.ask({ op: 'trust', id: 3, cell: 'b2' });
    context.model.dirty = false;
    await socket.ask({ op: 'save', id: 4 });
    await socket.ask({ op: 'fly', id: 5 });
    expect(socket.messages.slice(1).map(({ re }) => re)).toEqual([1, 2, 3, 4, 5]);
    expect(context.saved).toBe(1); // the second time there was nothing to save
    expect(context.model.cells[0].trusted).toBe(true);
    expect(socket.messages.at(-1)?.error).toContain('fly');
    link.dispose();
  });

  it('is quiet after a detach', async () => {
    const { notebook, socket, link } = await connect();
    await socket.ask({ op: 'attach', id: 1 });
    await socket.ask({ op: 'detach' });
    const updates = socket.updates;
    notebook.getCell(0).setSource('y');
    expect(socket.updates).toBe(updates);
    link.dispose();
  });

  it('comes back at once after a cut, without a timer, and says hello again', async () => {
    const { notebook, socket, link } = await connect();
    socket.close();
    notebook.getCell(0).setSource('typed while cut off');
    expect(Socket.last).not.toBe(socket);
    Socket.last.onopen();
    expect(Socket.last.messages[0]).toMatchObject({ op: 'hello', client: 'page-1' });
    link.dispose();
  });

  it('looks at the file when it is back, since others may have written it meanwhile', async () => {
    const { look, socket, link } = await connect();
    expect(look).not.toHaveBeenCalled();
    socket.close();
    Socket.last.onopen();
    expect(look).toHaveBeenCalledWith('sales.ipynb', { content: false, hash: true });
    link.dispose();
  });

  it('says which cells show a run of the server, and shows as ended what the server does not know', async () => {
    const { context, notebook, socket, link } = await connect();
    notebook.addCell({ cell_type: 'code', id: 'c3', source: 'mine' });
    notebook.addCell({ cell_type: 'code', id: 'd4', source: 'theirs, then mine' });
    const cells = notebook.cells as ISharedCodeCell[];
    const [theirs, mine, taken] = cells;
    const models = cells.map(cell => ({
      id: cell.id,
      type: 'code',
      set executionState(state: 'idle') {
        cell.executionState = state;
      }
    }));
    Object.assign(context.model, { cells: models });
    await socket.ask({ op: 'attach', id: 1 });
    const { replica } = socket;
    const before = Y.encodeStateVector(replica.ydoc);
    for (const index of [0, 2]) {
      (replica.getCell(index) as ISharedCodeCell).executionState = 'running';
    }
    const update = Y.encodeStateAsUpdate(replica.ydoc, before);
    socket.onmessage({ data: update.slice().buffer });
    mine.executionState = 'running';
    link.ran('d4');
    socket.close();
    Socket.last.onopen();
    expect(Socket.last.messages[0].running).toEqual(['b2']);
    expect(theirs.executionState).toBe('running');
    await Socket.last.ask({ op: 'ended', cells: ['b2', 'c3', 'd4'] });
    const states = [theirs, mine, taken].map(cell => cell.executionState);
    expect(states).toEqual(['idle', 'running', 'running']);
    link.dispose();
  });

  it('waits longer each time where the server does not take it', async () => {
    jest.useFakeTimers();
    try {
      const { socket, link } = await connect();
      socket.close();
      for (const pause of [400, 800, 1600]) {
        const refused = Socket.last;
        refused.onopen();
        refused.close();
        jest.advanceTimersByTime(pause - 1);
        expect(Socket.last).toBe(refused);
        jest.advanceTimersByTime(1);
        expect(Socket.last).not.toBe(refused);
      }
      link.dispose();
    } finally {
      jest.useRealTimers();
    }
  });

  it('stays out where a room has the document', async () => {
    Socket.last = null as unknown as Socket;
    const { link, context } = open({ collaborative: true });
    await context.ready;
    expect(Socket.last).toBeNull();
    link.dispose();
  });
});
