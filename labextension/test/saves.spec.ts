import { YNotebook } from '@jupyter/ydoc';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { saveInTurn } from '../src/saves';

/** A notebook whose saves end when the test says so. */
function open() {
  const ends: (() => void)[] = [];
  const context = {
    model: { dirty: false, sharedModel: YNotebook.create({ data: {} }) },
    save: () => new Promise<void>(resolve => ends.push(resolve))
  };
  const isSaving = saveInTurn(context as unknown as DocumentRegistry.IContext<INotebookModel>);
  return { context, ends, isSaving };
}

describe('saveInTurn', () => {
  it('lets one save follow the other, and one of many that wait', async () => {
    const { context, ends, isSaving } = open();
    const all = [context.save(), context.save(), context.save()];
    expect(ends).toHaveLength(1);
    ends[0]();
    await all[0];
    await Promise.resolve();
    expect(ends).toHaveLength(2);
    ends[1]();
    await Promise.all(all);
    expect(ends).toHaveLength(2);
    expect(isSaving()).toBe(false);
  });

  it('saves again where the page was frozen in the midst and the request is never answered', async () => {
    jest.useFakeTimers();
    try {
      const { context, ends, isSaving } = open();
      const save = context.save();
      document.dispatchEvent(new Event('resume'));
      await jest.advanceTimersByTimeAsync(1999);
      expect(ends).toHaveLength(1);
      await jest.advanceTimersByTimeAsync(1);
      expect(ends).toHaveLength(2);
      ends[1]();
      await save;
      expect(isSaving()).toBe(false);
    } finally {
      jest.useRealTimers();
    }
  });

  it('does not save again where the answer comes after the thaw', async () => {
    jest.useFakeTimers();
    try {
      const { context, ends } = open();
      const save = context.save();
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
