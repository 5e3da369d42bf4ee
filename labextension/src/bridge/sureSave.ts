import type { YNotebook } from '@jupyter/ydoc';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import { ServerConnection, type Contents } from '@jupyterlab/services';
import { JSONExt, type JSONValue } from '@lumino/coreutils';
import type * as Y from 'yjs';

/** Milliseconds that a request may still take after the page was frozen and has resumed. */
const PATIENCE = 2000;
/** Milliseconds to wait for a deleted file to be recreated. */
const GAP = 200;
export const SILENT = 'silent';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** A private method of JupyterLab; `saves.spec.ts` fails if it is renamed. */
interface IInside {
  _updateContentsModel?(file: Contents.IModel): void;
}

/** The file was changed after this page had checked it. */
export class Overtaken extends Error {
  override readonly name = 'ModalCancelError'; // with this name JupyterLab ends a save without a message
}

/** Whether our server has refused a save (`PageSaves`), or the file was deleted during it. */
export function isOvertaken(error: unknown): boolean {
  return (
    error instanceof ServerConnection.ResponseError &&
    (isMissing(error) || error.message.includes('jupyter_agent: another program wrote'))
  );
}

/** Read the file, and retry once if it is missing: `git checkout` deletes a file, then recreates it. */
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
 * The result of `work`, or SILENT if the page was frozen during it and it does not settle soon after: a request that is
 * pending when Chromium freezes the page sometimes never settles.
 */
export async function orTimeoutAfterFreeze<T>(work: Promise<T>): Promise<T | typeof SILENT> {
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

/** Tell JupyterLab this state of the file, so that it does not ask about it. */
export function acknowledge(context: Context, file: Contents.IModel): void {
  (context as unknown as IInside)._updateContentsModel?.(file);
}

/** Whether the cells are the same except for their metadata. */
export function isSameNotebook(a: INotebookContent, b: INotebookContent): boolean {
  return JSONExt.deepEqual(essence(a) as JSONValue, essence(b) as JSONValue);
}

/** The content of the cells without metadata, which the server adds and removes. */
function essence(notebook: unknown): unknown {
  return (notebook as INotebookContent).cells.map(({ cell_type, outputs, source }) => ({
    cell_type,
    outputs: outputs ?? null,
    source
  }));
}

/** Save; false if the save has to be restarted, since it was overtaken or did not settle. */
export async function trySave(context: Context, save: () => Promise<void>): Promise<boolean> {
  try {
    return (await orTimeoutAfterFreeze(savePreservingDirty(context, save))) !== SILENT;
  } catch (error) {
    if (error instanceof Overtaken) {
      return false;
    }
    throw error;
  }
}

/** Save, and keep the notebook marked as changed if it was changed after its content was read. */
async function savePreservingDirty(context: Context, save: () => Promise<void>): Promise<void> {
  const { ydoc } = context.model.sharedModel as YNotebook;
  const state: unknown = ydoc.getMap('state'); // has the dirty flag itself, and nothing that is saved
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
