import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPendingCell } from './pending';

/** "3 changes", or "Change 2 of 3" while one of them is current. */
export function countOf(
  cells: readonly IPendingCell[],
  current: IPendingCell | null,
  trans: TranslationBundle
): string {
  const index = current ? cells.indexOf(current) : -1;
  return index < 0
    ? trans._n('1 change', '%1 changes', cells.length)
    : trans.__('Change %1 of %2', index + 1, cells.length);
}
