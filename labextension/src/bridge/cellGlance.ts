import type { ISharedCell, ISharedCodeCell } from '@jupyter/ydoc';

/** Summary of a cell, from which the first requests are suggested. */
export interface ICellGlance {
  type: string;
  source: string;
  /** Whether its output shows an error. */
  failed: boolean;
  executed: boolean;
}

/** Of the shared cell: while cells are moved or merged, widgets are still there whose models are not. */
export function glanceAt(cell: ISharedCell): ICellGlance {
  const code = cell.cell_type === 'code' ? (cell as ISharedCodeCell) : null;
  const outputs = code?.getOutputs() ?? [];
  return {
    type: cell.cell_type,
    source: cell.getSource(),
    failed: outputs.some(({ output_type }) => output_type === 'error'),
    executed: code?.execution_count !== null
  };
}
