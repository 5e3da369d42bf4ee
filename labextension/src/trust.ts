import { isCodeCellModel } from '@jupyterlab/cells';
import type { ICellModel } from '@jupyterlab/cells';

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
  cell.trusted = true;
  if (isCodeCellModel(cell)) {
    for (let index = 0; index < cell.outputs.length; index++) {
      const output = cell.outputs.get(index);
      output.streamText?.changed.connect(() => output.setData({})); // changes nothing, but is shown
    }
  }
}
