import type { Cell } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';

/** Summary of a cell, from which the first requests are suggested. */
export interface ICellGlance {
  type: string;
  source: string;
  /** Whether its output shows an error. */
  failed: boolean;
  executed: boolean;
}

export function glanceAt({ model }: Cell): ICellGlance {
  const code = isCodeCellModel(model) ? model : null;
  const outputs = code?.outputs.toJSON() ?? [];
  return {
    type: model.type,
    source: model.sharedModel.getSource(),
    failed: outputs.some(({ output_type }) => output_type === 'error'),
    executed: code?.executionCount !== null
  };
}
