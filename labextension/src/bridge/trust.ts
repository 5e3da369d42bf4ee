import type { IMapChange, ISharedCodeCell } from '@jupyter/ydoc';
import type { ICellModel } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';

/**
 * Trust the cell's outputs as if the user had run it.
 *
 * JupyterLab 4.6 recreates the outputs for this, and its view does not follow text appended to a recreated output: the
 * output of a running cell would freeze.
 */
export function trust(cell: ICellModel): void {
  if (cell.trusted) {
    return;
  }
  if (!isCodeCellModel(cell)) {
    cell.trusted = true;
    return;
  }
  withoutWriting(cell.sharedModel, () => {
    cell.trusted = true;
  });
  for (let index = 0; index < cell.outputs.length; index++) {
    const output = cell.outputs.get(index);
    output.streamText?.changed.connect(() => output.setData({})); // changes nothing, but triggers rendering
  }
}

/**
 * The recreated outputs are equal, so they are not written to the document: that would overwrite what the server
 * adds at the same moment.
 */
function withoutWriting(cell: ISharedCodeCell, act: () => void): void {
  cell.updateOutputs = () => undefined;
  try {
    act();
  } finally {
    Reflect.deleteProperty(cell, 'updateOutputs'); // the class has it
  }
}

/**
 * Trusts outputs of runs that a user approved, in notebooks in a collaboration room.
 *
 * There is no link over which the server could request it, so it marks the cell. JupyterLab 4.6 reads the mark only
 * when it opens the notebook; here it takes effect at once.
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
