import { YNotebook } from '@jupyter/ydoc';
import type { INotebookModel } from '@jupyterlab/notebook';
import { Context, type DocumentRegistry } from '@jupyterlab/docregistry';
import { ServerConnection, type Contents } from '@jupyterlab/services';
import { PageCells } from '../../src/bridge/pageCells';
import { FileAccess } from '../../src/bridge/saves';

const SOURCE = 'x = 1';

/** A notebook whose saves end when the test decides. */
function open({ onDisk = SOURCE } = {}) {
  const ends: (() => void)[] = [];
  let fail!: (error: unknown) => void;
  const known: unknown[] = [];
  const sharedModel = YNotebook.create({ data: {} });
  const context = {
    path: 'a.ipynb',
    model: { dirty: false, sharedModel, cells: [], toJSON: () => notebook(SOURCE) },
    save: () =>
      new Promise<void>((resolve, reject) => {
        ends.push(resolve);
        fail = reject;
      }),
    createCheckpoint: () => Promise.resolve(),
    done: [] as string[],
    async revert() {
      await Promise.resolve();
      this.done.push('revert');
    },
    async restoreCheckpoint() {
      await Promise.resolve();
      this.done.push('restore');
    },
    contentsModel: { hash: 'old', last_modified: '' },
    _updateContentsModel: (file: { hash: string }) => known.push(file.hash)
  };
  const contents = {
    seen: 'old',
    get(_: string, { content }: { content: boolean }): Promise<object> {
      const { seen } = this;
      return Promise.resolve({ hash: seen, ...(content && { content: notebook(onDisk) }) });
    }
  };
  const page = { model: () => context.model as unknown as INotebookModel, views: () => [] };
  const file = new FileAccess(
    context as unknown as DocumentRegistry.IContext<INotebookModel>,
    contents as unknown as Contents.IManager,
    new PageCells({ ...page, isServerRun: () => false }),
    () => undefined
  );
  /** JupyterLab checks the file, as before and after it writes it. */
  const look = (): Promise<unknown> =>
    file
      .look(() => contents.get('a.ipynb', { content: false }) as Promise<Contents.IModel>)
      .catch((reason: unknown) => reason);
  /** Make the save in progress fail, and wait until that is handled. */
  const fails = async (reason: unknown): Promise<void> => {
    fail(reason);
    await rest();
  };
  return { context, contents, ends, fails, file, known, look };
}

function notebook(source: string) {
  return {
    metadata: {},
    cells: [{ cell_type: 'code', source, outputs: [], metadata: {} }]
  };
}

const rest = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('FileAccess', () => {
  it('uses a name of JupyterLab that is still there', () => {
    expect(Context.prototype).toHaveProperty('_updateContentsModel');
  });

  it.each([
    ['knows the file after a save that arrived and was never answered', SOURCE],
    ['looks at the file again where somebody else has written it', 'theirs = 1']
  ])('%s', async (_, onDisk) => {
    jest.useFakeTimers();
    try {
      const { context, contents, ends, file, known } = open({ onDisk });
      const save = context.save();
      await jest.advanceTimersByTimeAsync(0); // the look at the file
      void file.write({ content: notebook(SOURCE) }, () => new Promise(() => undefined));
      contents.seen = 'new';
      document.dispatchEvent(new Event('freeze'));
      document.dispatchEvent(new Event('resume'));
      await jest.advanceTimersByTimeAsync(2000);
      expect(known).toEqual(['new']);
      expect(file.hash).toBe('new');
      ends[1]();
      await save;
    } finally {
      jest.useRealTimers();
    }
  });

  it('begins again where JupyterLab finds another file than it had looked at', async () => {
    const { context, contents, ends, fails, look } = open();
    const saved = context.save();
    await rest();
    contents.seen = 'new';
    const error = await look();
    expect(error).toHaveProperty('name', 'ModalCancelError');
    await fails(error);
    expect(await look()).toEqual({ hash: 'new' });
    ends[1]();
    await saved;
  });

  it('begins again where the server has refused to overwrite what nobody has seen', async () => {
    const { context, ends, fails, file } = open();
    const saved = context.save();
    await rest();
    const sent: object[] = [];
    const response = { status: 409 } as Response;
    const message = 'HTTP 409 (jupyter_agent: another program wrote this notebook)';
    const refused = file.write({ content: notebook(SOURCE) }, options => {
      sent.push(options);
      return Promise.reject(new ServerConnection.ResponseError(response, message));
    });
    const error: unknown = await refused.catch((reason: unknown) => reason);
    expect(sent).toEqual([{ content: notebook(SOURCE), jupyter_agent_seen: 'old' }]);
    await fails(error);
    ends[1]();
    await saved;
  });

  it('begins again where the file is gone for a moment, as while git recreates it', async () => {
    const { context, ends, fails, file } = open();
    const saved = context.save();
    await rest();
    const here = (): Promise<Contents.IModel> => Promise.resolve({} as Contents.IModel);
    const gone = (): Promise<never> =>
      Promise.reject(new ServerConnection.ResponseError({ status: 404 } as Response));
    await file.look(jest.fn(here).mockImplementationOnce(gone));
    await file.write({}, gone).catch(fails);
    await file.write({}, here);
    await file.look(gone).catch(fails);
    ends[2]();
    await saved;
  });

  it('does not begin again where it failed for another reason', async () => {
    const { context, fails } = open();
    const saved = context.save();
    await rest();
    void fails(new Error('the disk is full'));
    await expect(saved).rejects.toThrow('the disk is full');
  });

  it('takes the hash of what was written from the server, not that of a later file', async () => {
    const { context, ends, file } = open();
    const saved = context.save();
    await rest();
    await file.write({ content: notebook(SOURCE) }, () =>
      Promise.resolve({ hash: 'ours' } as Contents.IModel)
    );
    context.contentsModel = { hash: 'theirs', last_modified: '' };
    ends[0]();
    await saved;
    expect(file.hash).toBe('ours');
  });

  it('leaves it to JupyterLab in the end where others write the file all the time', async () => {
    const { context, contents, ends, fails, look } = open();
    const saved = context.save();
    for (let hash = 1; hash < 10; hash++) {
      await rest();
      contents.seen = String(hash);
      await fails(await look());
    }
    await rest();
    contents.seen = 'the last';
    expect(await look()).toEqual({ hash: 'the last' });
    ends[9]();
    await saved;
  });

  it('lets one save follow the other, and one of many that wait', async () => {
    const { context, ends, file } = open();
    const all = [context.save(), context.save(), context.save()];
    await rest();
    expect(ends).toHaveLength(1);
    ends[0]();
    await all[0];
    await rest();
    expect(ends).toHaveLength(2);
    ends[1]();
    await Promise.all(all);
    expect(ends).toHaveLength(2);
    expect(file.isBusy).toBe(false);
  });

  it('lets a rename wait for the save that is under way, and later saves for the rename', async () => {
    const { context, ends, file } = open();
    const order: string[] = [];
    let endRename!: () => void;
    const saves = [context.save().then(() => order.push('saved'))];
    const rename = file.enqueue(async () => {
      order.push('rename');
      await new Promise<void>(resolve => (endRename = resolve));
      order.push('renamed');
    });
    saves.push(context.save().then(() => order.push('saved again')));
    await rest();
    expect(order).toEqual([]);
    ends[0]();
    await saves[0];
    await rest();
    expect(order).toEqual(['saved', 'rename']);
    expect(ends).toHaveLength(1);
    endRename();
    await rename;
    await rest();
    ends[1]();
    await Promise.all(saves);
    expect(order).toEqual(['saved', 'rename', 'renamed', 'saved again']);
    expect(file.isBusy).toBe(false);
  });

  it('loads a restored checkpoint before anything is saved again', async () => {
    const { context, ends } = open();
    const order: string[] = [];
    const restored = context.restoreCheckpoint().then(() => order.push('restored'));
    const save = context.save().then(() => order.push('saved'));
    await rest();
    ends[0]();
    await Promise.all([restored, save]);
    expect(context.done).toEqual(['restore', 'revert']);
    expect(order).toEqual(['restored', 'saved']);
  });

  it('goes on after something that failed', async () => {
    const { context, ends, file } = open();
    const failed = file.enqueue(() => Promise.reject(new Error('no')));
    const save = context.save();
    await expect(failed).rejects.toThrow('no');
    await rest();
    ends[0]();
    await save;
    expect(file.isBusy).toBe(false);
  });

  it('saves again where the page was frozen in the midst and the request is never answered', async () => {
    jest.useFakeTimers();
    try {
      const { context, contents, ends } = open();
      const get = jest.spyOn(contents, 'get');
      const save = context.save();
      await jest.advanceTimersByTimeAsync(0);
      expect(get).not.toHaveBeenCalled(); // JupyterLab itself checks a file that it knows
      document.dispatchEvent(new Event('resume'));
      await jest.advanceTimersByTimeAsync(1999);
      expect(ends).toHaveLength(1);
      await jest.advanceTimersByTimeAsync(1);
      expect(ends).toHaveLength(2);
      ends[1]();
      await save;
    } finally {
      jest.useRealTimers();
    }
  });

  it('saves also where the page was frozen while it looked at the file and is never answered', async () => {
    jest.useFakeTimers();
    try {
      const { context, contents, ends, file } = open();
      context.contentsModel.hash = 'of before a rename'; // so that we look at the file ourselves
      contents.get = () => new Promise(() => undefined);
      const save = context.save();
      document.dispatchEvent(new Event('resume'));
      await jest.advanceTimersByTimeAsync(2000);
      ends[0]();
      await save;
      expect(file.isBusy).toBe(false);
    } finally {
      jest.useRealTimers();
    }
  });

  it('does not save again where the answer comes after the thaw', async () => {
    jest.useFakeTimers();
    try {
      const { context, ends } = open();
      const save = context.save();
      await jest.advanceTimersByTimeAsync(0); // the look at the file
      document.dispatchEvent(new Event('resume'));
      ends[0]();
      await save;
      await jest.advanceTimersByTimeAsync(5000);
      expect(ends).toHaveLength(1);
    } finally {
      jest.useRealTimers();
    }
  });
});
