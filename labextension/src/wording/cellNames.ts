import type { TranslationBundle } from '@jupyterlab/translation';

/** Looks up a cell's current position, counted from 1; null for a cell that is not open. */
export type Locate = (cellId: string) => number | null;

/** "cells 2–7", "cells 2, 4", "cell 3", "3 cells". */
export function listOf(ids: readonly string[], locate: Locate, trans: TranslationBundle): string {
  const places = placesOf(ids, locate);
  if (!places) {
    return trans._n('a cell', '%1 cells', ids.length || 1);
  }
  return places.length === 1
    ? trans.__('cell %1', places[0])
    : trans.__('cells %1', ranges(places));
}

/** Their positions in order, without duplicates; null if one of them is not open. */
export function placesOf(ids: readonly string[], locate: Locate): number[] | null {
  const places = [...new Set(ids)].map(locate).filter(place => place !== null);
  const known = places.length === new Set(ids).size && places.length > 0;
  return known ? places.sort((a, b) => a - b) : null;
}

/** "2–7, 9". */
export function ranges(places: readonly number[]): string {
  const found: [number, number][] = [];
  for (const place of places) {
    const last = found.at(-1);
    if (last && place === last[1] + 1) {
      last[1] = place;
    } else {
      found.push([place, place]);
    }
  }
  return found
    .map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`))
    .join(', ');
}
