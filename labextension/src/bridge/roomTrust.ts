import type { ICellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { IMapChange } from '@jupyter/ydoc';
import { trust } from './trust';

/**
 * Trusts outputs of runs that a user approved, in notebooks that are in a collaboration room.
 *
 * There is no link over which the server could ask for it, so it marks the cell. JupyterLab 4.6 reads the mark
 * when it opens the notebook; here it is followed at once.
 */
export function followTrust(notebook: INotebookModel): void {
  const followed = new WeakSet<ICellModel>();
  const follow = (): void => {
    for (const cell of notebook.cells) {
      if (!followed.has(cell)) {
        followed.add(cell);
        cell.metadataChanged.connect(onMetadataChanged);
      }
    }
  };
  follow();
  notebook.cells.changed.connect(follow);
}

function onMetadataChanged(cell: ICellModel, { key, newValue }: IMapChange): void {
  if (key === 'trusted' && newValue === true) {
    trust(cell);
  }
}
