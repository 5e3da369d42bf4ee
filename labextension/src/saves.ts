import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { YNotebook } from '@jupyter/ydoc';
import type * as Y from 'yjs';

/** Milliseconds that a request may take after its page was frozen. */
const PATIENCE = 2000;

type Context = DocumentRegistry.IContext<INotebookModel>;

/**
 * Lets all saves of a notebook, the user's and ours, go one after the other.
 *
 * JupyterLab 4.6 asks about a "changed file" when two saves of its own overlap, and marks the notebook as saved
 * at the end of one although something was typed meanwhile. Saves that are minutes apart seldom show it; those
 * of a working assistant follow each other within a second.
 *
 * Returns a function that says whether a save is under way.
 */
export function saveInTurn(context: Context): () => boolean {
  const save = context.save.bind(context);
  let running: Promise<void> | null = null;
  let next: Promise<void> | null = null;

  const start = (): Promise<void> => {
    next = null;
    running = unlessFrozen(() => keepingDirty(context, save)).finally(() => (running = null));
    return running;
  };
  context.save = () => {
    if (!running) {
      return start();
    }
    next ??= running.then(start, start); // what has not begun yet has everybody's changes in it
    return next;
  };
  return () => running !== null;
}

/**
 * Do what speaks to the server, and once more if the page was frozen in its midst: of a request that was under way
 * when Chromium froze the page sometimes nothing is ever heard, and all saves after it would wait for it.
 */
async function unlessFrozen(work: () => Promise<void>): Promise<void> {
  let giveUp!: () => void;
  const silence = new Promise<'silent'>(resolve => (giveUp = () => resolve('silent')));
  const onResume = (): unknown => setTimeout(giveUp, PATIENCE);
  document.addEventListener('resume', onResume);
  try {
    if ((await Promise.race([work(), silence])) === 'silent') {
      await work();
    }
  } finally {
    document.removeEventListener('resume', onResume);
  }
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
