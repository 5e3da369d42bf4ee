import type { INotebookModel } from '@jupyterlab/notebook';
import { isCodeCellModel } from '@jupyterlab/cells';
import * as Y from 'yjs';

/**
 * The cells of a notebook that show a run of the server, derived from the server's updates.
 *
 * Their running state is only in this page, not in a file: if the server or its run is gone, only this page can reset
 * it.
 */
export class ServerRunCells {
  get ids(): string[] {
    return [...this._ids];
  }

  /** Run `write`, which applies an update from the server to the document. */
  during(ydoc: Y.Doc, write: () => void): void {
    ydoc.on('afterTransaction', this._follow);
    try {
      write();
    } finally {
      ydoc.off('afterTransaction', this._follow);
    }
  }

  /** The user runs the cell, so it no longer shows the server's run. */
  take(id: string): void {
    this._ids.delete(id);
  }

  /** Nothing runs in these cells any more; their outputs stay. */
  end(ids: readonly string[], { cells }: INotebookModel): void {
    const ended = new Set(ids.filter(id => this._ids.delete(id)));
    for (const cell of ended.size ? cells : []) {
      if (ended.has(cell.id) && isCodeCellModel(cell)) {
        cell.executionState = 'idle';
      }
    }
  }

  private readonly _follow = ({ changed }: Y.Transaction): void => {
    for (const [cell, keys] of changed) {
      if (keys.has('execution_state') && cell instanceof Y.Map) {
        const id = cell.get('id') as string;
        if (cell.get('execution_state') === 'running') {
          this._ids.add(id);
        } else {
          this._ids.delete(id);
        }
      }
    }
  };

  private readonly _ids = new Set<string>();
}
