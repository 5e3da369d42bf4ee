import type { TranslationBundle } from '@jupyterlab/translation';
import type { IUndone } from '../api/protocol';
import { legible } from '../wording/oddCharacters';
import { capitalize } from '../wording/toolPhrases';

/**
 * A sentence that says why a cell was not undone: "Cell 5 kept: you edited it after the assistant."
 *
 * @param named - Whether to name the notebook.
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
      return capitalize(trans.__('%1 kept: you edited it after the assistant.', cell));
    case 'deleted':
      return capitalize(
        position
          ? trans.__('%1 kept: you had deleted it, and brought it back.', cell)
          : trans.__('%1 stays deleted: you deleted it after the assistant.', cell)
      );
    case 'typing':
      return capitalize(trans.__('%1 kept: you were typing in it.', cell));
    case 'running':
      return capitalize(trans.__('%1 kept: it was running.', cell));
    case 'locked':
      return capitalize(trans.__('%1 kept: it was locked after the assistant changed it.', cell));
    default:
      return capitalize(trans.__('%1 kept: %2', cell, why));
  }
}

/** "cell 3, 2 other cells": the cells with a position, and the number of those without. */
export function cellsOf(positions: readonly (number | null)[], trans: TranslationBundle): string {
  const known = positions.flatMap(place => (place ? trans.__('cell %1', place) : []));
  const others = positions.length - known.length;
  if (!known.length) {
    return trans._n('a cell', '%1 cells', others);
  }
  return [...known, ...(others ? [trans._n('another cell', '%1 other cells', others)] : [])].join(
    ', '
  );
}
