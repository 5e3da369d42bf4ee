import type { YNotebook } from '@jupyter/ydoc';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import { ServerConnection, type Contents } from '@jupyterlab/services';
import { JSONExt, type JSONValue } from '@lumino/coreutils';
import type * as Y from 'yjs';

/** Milliseconds that a request may take after its page was frozen. */
const PATIENCE = 2000;
/** Milliseconds within which a file that was deleted is made again, if it is. */
const GAP = 200;
export const SILENT = 'silent';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** JupyterLab's own, for which it has no public name; `saves.spec.ts` fails when it has another one. */
interface IInside {
  _updateContentsModel?(file: Contents.IModel): void;
}

/** The file was changed after this page had looked at it. */
export class Overtaken extends Error {
  override readonly name = 'ModalCancelError'; // for which JupyterLab ends a save without another word
}

/** Whether our server has refused a save, as `PageSaves` there does, or the file was deleted in the midst of it. */
export function isOvertaken(error: unknown): boolean {
  return (
    error instanceof ServerConnection.ResponseError &&
    (isMissing(error) || error.message.includes('jupyter_agent: another program wrote'))
  );
}

/** The file; one that is missing is looked for again: `git checkout` deletes a file, then recreates it. */
export async function lookTwice(get: () => Promise<Contents.IModel>): Promise<Contents.IModel> {
  try {
    return await get();
  } catch (error) {
    if (!isMissing(error)) {
      throw error;
    }
    await new Promise(resolve => setTimeout(resolve, GAP));
    return get();
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof ServerConnection.ResponseError && error.response.status === 404;
}

/**
 * What comes of the work; SILENT if the page was frozen in the midst of it and nothing is heard since: of a request that
 * was under way when Chromium froze the page sometimes nothing is ever heard.
 */
export async function unlessSilent<T>(work: Promise<T>): Promise<T | typeof SILENT> {
  let giveUp!: () => void;
  const silence = new Promise<typeof SILENT>(resolve => (giveUp = () => resolve(SILENT)));
  const onResume = (): unknown => setTimeout(giveUp, PATIENCE);
  document.addEventListener('resume', onResume);
  try {
    return await Promise.race([work, silence]);
  } finally {
    document.removeEventListener('resume', onResume);
  }
}

/** Let JupyterLab know the file in this state, so that it does not ask about it. */
export function acknowledge(context: Context, file: Contents.IModel): void {
  (context as unknown as IInside)._updateContentsModel?.(file);
}

/** Whether the cells are the same, but for their metadata. */
export function isSameNotebook(a: INotebookContent, b: INotebookContent): boolean {
  return JSONExt.deepEqual(essence(a) as JSONValue, essence(b) as JSONValue);
}

/** What is in the cells; the server adds and removes metadata. */
function essence(notebook: unknown): unknown {
  return (notebook as INotebookContent).cells.map(({ cell_type, outputs, source }) => ({
    cell_type,
    outputs: outputs ?? null,
    source
  }));
}

/** Save; false where the save has to begin again, since it was overtaken or nothing is heard of it. */
export async function trySave(context: Context, save: () => Promise<void>): Promise<boolean> {
  try {
    return (await unlessSilent(keepingDirty(context, save))) !== SILENT;
  } catch (error) {
    if (error instanceof Overtaken) {
      return false;
    }
    throw error;
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
