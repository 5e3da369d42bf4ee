import { YNotebook } from '@jupyter/ydoc';
import type { INotebookModel } from '@jupyterlab/notebook';
import { Context, type DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { PageCells } from '../../src/bridge/pageCells';
import { FileAccess } from '../../src/bridge/saves';

const SOURCE = 'x = 1';

/** A notebook whose saves end when the test says so. */
function open({ onDisk = SOURCE } = {}) {
  const ends: (() => void)[] = [];
  const known: unknown[] = [];
  const sharedModel = YNotebook.create({ data: {} });
  const context = {
    path: 'a.ipynb',
    model: { dirty: false, sharedModel, cells: [], toJSON: () => notebook(SOURCE) },
    save: () => new Promise<void>(resolve => ends.push(resolve)),
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
    get: (_: string, { content }: { content: boolean }): Promise<object> =>
      Promise.resolve(content ? { content: notebook(onDisk), hash: 'new' } : { hash: 'old' })
  };
  const page = { model: () => context.model as unknown as INotebookModel, views: () => [] };
  const file = new FileAccess(
    context as unknown as DocumentRegistry.IContext<INotebookModel>,
    contents as unknown as Contents.IManager,
    new PageCells({ ...page, isLent: () => false }),
    () => undefined
  );
  return { context, contents, ends, file, known };
}

function notebook(source: string) {
  return { cells: [{ cell_type: 'code', source, outputs: [], metadata: {} }] };
}

const rest = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('FileAccess', () => {
  it('uses a name of JupyterLab that is still there', () => {
    expect(Context.prototype).toHaveProperty('_updateContentsModel');
  });

  it.each([
    ['knows the file after a save whose answer was lost', SOURCE, ['new']],
    ["leaves it to the user where the file is somebody else's", 'theirs = 1', []]
  ])('%s', async (_, onDisk, expected) => {
    jest.useFakeTimers();
    try {
      const { context, ends, known } = open({ onDisk });
      const save = context.save();
      await jest.advanceTimersByTimeAsync(0); // the look at the file
      document.dispatchEvent(new Event('freeze'));
      document.dispatchEvent(new Event('resume'));
      await jest.advanceTimersByTimeAsync(2000);
      expect(known).toEqual(expected);
      ends[1]();
      await save;
    } finally {
      jest.useRealTimers();
    }
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
    const rename = file.inTurn(async () => {
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
    const failed = file.inTurn(() => Promise.reject(new Error('no')));
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
      const { context, ends, file } = open();
      const save = context.save();
      await jest.advanceTimersByTimeAsync(0); // the look at the file
      document.dispatchEvent(new Event('resume'));
      await jest.advanceTimersByTimeAsync(1999);
      expect(ends).toHaveLength(1);
      await jest.advanceTimersByTimeAsync(1);
      expect(ends).toHaveLength(2);
      ends[1]();
      await save;
      expect(file.isBusy).toBe(false);
    } finally {
      jest.useRealTimers();
    }
  });

  it('saves also where the page was frozen while it looked at the file and is never answered', async () => {
    jest.useFakeTimers();
    try {
      const { context, contents, ends, file } = open();
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
