import type { TranslationBundle } from '@jupyterlab/translation';
import type { IUndone } from './protocol';

/** Why one cell was not taken back, in the assistant's own words: "You changed cell 5 meanwhile; I kept yours." */
export function describeConflict(
  { reason, why }: IUndone['conflicts'][number],
  position: number | null,
  trans: TranslationBundle
): string {
  const cell = position ? trans.__('cell %1', position) : trans.__('a cell');
  switch (reason) {
    case 'changed':
      return trans.__('You changed %1 meanwhile; I kept yours.', cell);
    case 'deleted':
      return trans.__('You deleted a cell meanwhile; I left it so.');
    case 'typing':
      return trans.__('You are typing in %1; I left it as it is.', cell);
    default:
      return trans.__('I left %1 as it is: %2', cell, why);
  }
}
