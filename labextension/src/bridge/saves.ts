import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';
import type { YNotebook } from '@jupyter/ydoc';
import { JSONExt, type JSONValue } from '@lumino/coreutils';
import type * as Y from 'yjs';

/** Milliseconds that a request may take after its page was frozen. */
const PATIENCE = 2000;
/** States of the file that are remembered as saved by this page. */
const MOST_SAVED = 100;

type Context = DocumentRegistry.IContext<INotebookModel>;

/** JupyterLab's own, for which it has no public name; `saves.spec.ts` fails when it has another one. */
interface IInside {
  _updateContentsModel?(file: Contents.IModel): void;
}

/**
 * Whatever this page does with the file of one notebook, one thing after the other: saves, the user's and ours,
 * checkpoints, renames, and loading the file again.
 *
 * JupyterLab 4.6 asks about a "changed file" when two saves of its own overlap, and marks the notebook as saved
 * at the end of one although something was typed meanwhile. Saves that are minutes apart seldom show it; those
 * of a working assistant follow each other within a second. A save that meets a rename makes the old file again,
 * with the newest text, and the renamed one stays behind.
 */
export class FileAccess {
  constructor(
    private readonly _context: Context,
    contents: Contents.IManager
  ) {
    const save = _context.save.bind(_context);
    const once = async (): Promise<void> => {
      await unlessFrozen(_context, contents, () => keepingDirty(_context, save));
      this._remember(_context.contentsModel?.hash);
    };
    const checkpoint = _context.createCheckpoint.bind(_context);
    _context.createCheckpoint = () => this.inTurn(checkpoint); // JupyterLab makes one after each save of the user's
    let next: Promise<void> | null = null;
    _context.save = () => {
      if (!this.isBusy) {
        return this.inTurn(once);
      }
      next ??= this.inTurn(() => {
        next = null; // what has not begun yet has everybody's changes in it
        return once();
      });
      return next;
    };
  }

  /** Whether something is under way. */
  get isBusy(): boolean {
    return this._last !== null;
  }

  /** Do it once everything is done that was asked for before, at once if that is so, and before anything that follows. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this._last ? this._last.then(work, work) : work();
    const end = (): void => {
      if (this._last === result) {
        this._last = null;
      }
    };
    this._last = result;
    result.then(end, end);
    return result;
  }

  /** Whether this page saved the file in that state. */
  hasSaved(hash: string | undefined): boolean {
    return hash !== undefined && this._saved.has(hash);
  }

  /** Let JupyterLab know the file in this state, so that it does not ask about it. */
  acknowledge(file: Contents.IModel): void {
    acknowledge(this._context, file);
  }

  private _remember(hash: string | undefined): void {
    if (hash) {
      this._saved.delete(hash);
      this._saved.add(hash);
      for (const oldest of [...this._saved].slice(0, -MOST_SAVED)) {
        this._saved.delete(oldest);
      }
    }
  }

  private _last: Promise<unknown> | null = null;
  private readonly _saved = new Set<string>();
}

/**
 * Save, and once more if the page was frozen in the midst: of a request that was under way when Chromium froze the page
 * sometimes nothing is ever heard, and all saves after it would wait for it.
 */
async function unlessFrozen(
  context: Context,
  contents: Contents.IManager,
  save: () => Promise<void>
): Promise<void> {
  let giveUp!: () => void;
  const silence = new Promise<'silent'>(resolve => (giveUp = () => resolve('silent')));
  let frozen: unknown;
  const onFreeze = (): unknown => (frozen = essence(context.model.toJSON()));
  const onResume = (): unknown => setTimeout(giveUp, PATIENCE);
  document.addEventListener('freeze', onFreeze);
  document.addEventListener('resume', onResume);
  try {
    if ((await Promise.race([save(), silence])) === 'silent') {
      await acknowledgeSent(context, contents, frozen);
      await save();
    }
  } finally {
    document.removeEventListener('freeze', onFreeze);
    document.removeEventListener('resume', onResume);
  }
}

/**
 * Let JupyterLab know the file where it is as this page has sent it: a save that has arrived and was never answered
 * would be taken for somebody else's, and the user asked what to do about it.
 */
async function acknowledgeSent(
  context: Context,
  contents: Contents.IManager,
  sent: unknown
): Promise<void> {
  const file = await contents.get(context.path, { content: true, hash: true });
  if (JSONExt.deepEqual(essence(file.content) as JSONValue, sent as JSONValue)) {
    acknowledge(context, file);
  }
}

function acknowledge(context: Context, file: Contents.IModel): void {
  (context as unknown as IInside)._updateContentsModel?.(file);
}

/** What is in the cells; the server adds and removes metadata. */
function essence(notebook: unknown): unknown {
  return (notebook as INotebookContent).cells.map(({ cell_type, outputs, source }) => ({
    cell_type,
    outputs: outputs ?? null,
    source
  }));
}

/** Save, and leave the notebook marked as changed if it was changed after its content was taken. */
async function keepingDirty(context: Context, save: () => Promise<void>): Promise<void> {
  const { ydoc } = context.model.sharedModel as YNotebook;
  const state: unknown = ydoc.getMap('state'); // holds the mark itself, and nothing that is saved
  let changed = false;
  const watch = ({ changed: types }: Y.Transaction): void => {
    changed ||= [...types.keys()].some(type => type !== state);
  };
  ydoc.on('afterTransaction', watch);
  try {
    await save();
  } finally {
    ydoc.off('afterTransaction', watch);
  }
  if (changed) {
    context.model.dirty = true;
  }
}
