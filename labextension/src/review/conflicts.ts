import type { TranslationBundle } from '@jupyterlab/translation';
import type { IUndone } from '../api/protocol';
import { legible } from '../wording/oddCharacters';

/**
 * Why one cell was not undone, in the assistant's own words: "You changed cell 5 meanwhile; I kept yours."
 *
 * @param named - Whether to say in which notebook.
 */
export function describeConflict(
  { notebook, reason, why }: IUndone['conflicts'][number],
  position: number | null,
  trans: TranslationBundle,
  named = false
): string {
  const place = position ? trans.__('cell %1', position) : trans.__('a cell');
  const cell = named ? trans.__('%1 in %2', place, legible(notebook)) : place;
  switch (reason) {
    case 'changed':
      return trans.__('You changed %1 meanwhile; I kept yours.', cell);
    case 'deleted':
      return trans.__('You deleted %1 meanwhile; I left it so.', cell);
    case 'typing':
      return trans.__('You are typing in %1; I left it as it is.', cell);
    default:
      return trans.__('I left %1 as it is: %2', cell, why);
  }
}
