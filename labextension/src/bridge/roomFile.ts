import type { YNotebook } from '@jupyter/ydoc';
import type { Contents } from '@jupyterlab/services';
import * as Y from 'yjs';
import type { AgentClient } from '../api/client';
import { RequestError } from '../api/failure';
import type { Context } from './context';

/** Milliseconds to wait for a room to report its save, and between two checks of the file. */
const PATIENCE = 3000;
const PAUSE = 100;

/**
 * The file of a notebook in a collaboration room. The server writes it, and reports its new hash a moment later.
 */
export class RoomFile {
  constructor(
    private readonly _context: Context,
    private readonly _client: AgentClient
  ) {}

  /**
   * Called when JupyterLab checks the file: waits for the room's report before JupyterLab treats the file as changed by
   * someone else. If the user saves at that moment, JupyterLab 4.6 asks about a "changed file".
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
   * Called when JupyterLab is about to `put` this page's text into the file: has the room save it instead, unless the
   * file no longer exists. The room would treat that text as an external change and overwrite others' typing.
   * docprovider 3.0.4 does so after each restart of the server (`docs/upstream.md`).
   */
  async write(
    get: () => Promise<Contents.IModel>,
    put: () => Promise<Contents.IModel>
  ): Promise<Contents.IModel> {
    const { path, model } = this._context;
    const { ydoc } = model.sharedModel as YNotebook;
    // A state vector does not count deletions, so count an entry that follows them.
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
