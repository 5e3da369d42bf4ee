import type { ISharedCodeCell } from '@jupyter/ydoc';
import type { ICellModel } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';

/**
 * Let the cell's outputs count as those of a cell that the user ran.
 *
 * JupyterLab 4.6 makes the outputs anew for that, and its view does not follow what is appended to one that took
 * the place of another: the text of a run that has begun would stand still.
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
    output.streamText?.changed.connect(() => output.setData({})); // changes nothing, but is shown
  }
}

/**
 * The outputs made anew are the same, so the document keeps those it has: written over them, they would take
 * along what the server adds to them at the same moment.
 */
function withoutWriting(cell: ISharedCodeCell, act: () => void): void {
  cell.updateOutputs = () => undefined;
  try {
    act();
  } finally {
    Reflect.deleteProperty(cell, 'updateOutputs'); // the class has it
  }
}
