import type { YNotebook } from '@jupyter/ydoc';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import * as Y from 'yjs';
import type { AgentClient } from '../api/client';
import { RequestError } from '../api/failure';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** Milliseconds that a room may take to say what it has written, and between two looks at the file. */
const PATIENCE = 3000;
const PAUSE = 100;

/**
 * The file of a notebook in a collaboration room. The server writes it, and says a moment later which hash it has now.
 */
export class RoomFile {
  constructor(
    private readonly _context: Context,
    private readonly _client: AgentClient
  ) {}

  /**
   * JupyterLab looks at the file: have it wait for the word of the room before it takes the file for one that somebody else
   * changed. When the user saves in that moment, JupyterLab 4.6 asks about a "changed file".
   */
  async look(get: () => Promise<Contents.IModel>): Promise<Contents.IModel> {
    const end = Date.now() + PATIENCE;
    let file = await get();
    while (file.hash && file.hash !== this._context.contentsModel?.hash && Date.now() < end) {
      await new Promise(resolve => setTimeout(resolve, PAUSE));
      file = await get(); // it may have been written again
    }
    return file;
  }

  /**
   * JupyterLab is about to `put` this page's text into the file itself: have the room write it instead, unless there is no
   * file any more. The room would take that text for one from outside, and put it over what others type. docprovider 3.0.4
   * does so after each restart of the server (`docs/upstream.md`).
   */
  async write(
    get: () => Promise<Contents.IModel>,
    put: () => Promise<Contents.IModel>
  ): Promise<Contents.IModel> {
    const { path, model } = this._context;
    const { ydoc } = model.sharedModel as YNotebook;
    // A state vector does not count deletions. What is counted after them comes after them.
    ydoc.getMap('state').set('jupyter_agent_save', Date.now());
    try {
      await this._client.saveRoom(path, Y.decodeStateVector(Y.encodeStateVector(ydoc)));
    } catch (error) {
      if (error instanceof RequestError && error.status === 404) {
        return put();
      }
      throw error;
    }
    return get();
  }
}
