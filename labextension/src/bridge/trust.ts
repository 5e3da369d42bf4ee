import type { ISharedCodeCell } from '@jupyter/ydoc';
import type { ICellModel } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';

/**
 * Trust the cell's outputs as if the user had run it.
 *
 * JupyterLab 4.6 recreates the outputs for that, and its view does not follow text that is appended to a recreated
 * output: the text of a run that has started would freeze.
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
