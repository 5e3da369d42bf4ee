import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { DocumentRegistry } from '@jupyterlab/docregistry';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** Milliseconds that a room may take to say what it has written, and between two looks at the file. */
const PATIENCE = 3000;
const PAUSE = 100;

/**
 * Has JupyterLab wait for the word of a collaboration room before it takes its file for one that somebody else changed.
 *
 * The server writes the file of a room, and says a moment later which hash it has now. When the user saves in that
 * moment, JupyterLab 4.6 asks about a "changed file". `find` gives the notebook at a path, if it is in a room.
 */
export function awaitRooms(
  contents: Contents.IManager,
  find: (path: string) => Context | undefined
): void {
  const get = contents.get.bind(contents);
  contents.get = async (path, options) => {
    const file = await get(path, options);
    const context = options?.hash && !options.content ? find(path) : undefined;
    return context ? agreed(context, file, () => get(path, options)) : file;
  };
}

async function agreed(
  context: Context,
  found: Contents.IModel,
  look: () => Promise<Contents.IModel>
): Promise<Contents.IModel> {
  const end = Date.now() + PATIENCE;
  let file = found;
  while (file.hash && file.hash !== context.contentsModel?.hash && Date.now() < end) {
    await new Promise(resolve => setTimeout(resolve, PAUSE));
    file = await look(); // it may have been written again
  }
  return file;
}
