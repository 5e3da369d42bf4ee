/**
 * Merges three states of one notebook: the last common state of a page and a file, the page's state and the file's
 * state. Pure functions; cells are compared by id.
 */
import type * as nbformat from '@jupyterlab/nbformat';
import { JSONExt } from '@lumino/coreutils';
import type {
  ReadonlyPartialJSONArray,
  ReadonlyPartialJSONObject,
  ReadonlyPartialJSONValue
} from '@lumino/coreutils';
import { diffArrays } from 'diff';
import type { ICellConflict, IMergeCell } from '../tokens';
import { normalizeLineEnds } from './lineEnds';

export interface IMerged {
  cells: IMergeCell[];
  conflicts: ICellConflict[];
}

/** The metadata without the keys that belong to the page. */
export function withoutTrust(metadata: ReadonlyPartialJSONObject): ReadonlyPartialJSONObject {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== OF_THE_PAGE));
}

/** The metadata key of a code cell that belongs to a page, not to a file. */
const OF_THE_PAGE = 'trusted';

/**
 * The cells with the changes of both sides.
 *
 * @param base - The common ancestor; null if it is unknown. Then nothing counts as deleted, and every other difference
 * is a conflict.
 * @param takes - Whether changes and deletions made only in the file are applied; else they are conflicts as well.
 */
export function mergeCells(
  base: readonly IMergeCell[] | null,
  mine: readonly IMergeCell[],
  theirs: readonly IMergeCell[],
  takes = true
): IMerged {
  const was = byId(base ?? []);
  const here = byId(mine);
  const there = byId(theirs);
  const conflicts: ICellConflict[] = [];
  const merged = new Map<string, IMergeCell>();
  for (const id of new Set([...here.keys(), ...there.keys()])) {
    const [before, own, other] = [was.get(id), here.get(id), there.get(id)];
    if (own && other) {
      const cell = takes ? mergeCell(before, own, other) : null;
      merged.set(id, cell ?? own);
      if (!cell && !isSame(other, own)) {
        conflicts.push({ cell: id, mine: own.source, theirs: other });
      }
    } else if (takes && own && before && isSame(own, before)) {
      continue; // deleted in the file
    } else if (own) {
      merged.set(id, own);
      if (before) {
        conflicts.push({ cell: id, mine: own.source, theirs: null });
      }
    } else if (other && !before) {
      merged.set(id, other);
    } else if (other && before && !isSame(other, before)) {
      conflicts.push({ cell: id, mine: null, theirs: other });
    }
  }
  const order = mergeOrder([...was.keys()], [...here.keys()], [...there.keys()]);
  const cells = order.flatMap(id => merged.get(id) ?? []);
  return { cells, conflicts };
}

/** The cell with the changes of both sides; null if both changed the same lines of its text. */
function mergeCell(
  base: IMergeCell | undefined,
  mine: IMergeCell,
  theirs: IMergeCell
): IMergeCell | null {
  const source = mergeText(base?.source, mine.source, theirs.source);
  if (source === null) {
    return null;
  }
  const typed = pick(base?.cell_type, mine.cell_type, theirs.cell_type) === mine.cell_type;
  const run = pick(base && runOf(base), runOf(mine), runOf(theirs));
  const isOwnRun = JSONExt.deepEqual(run, runOf(mine));
  const metadata = withoutTrust(mergeObjects(base?.metadata, mine.metadata, theirs.metadata));
  const attachments = pick(base?.attachments, mine.attachments, theirs.attachments);
  const trusted = (isOwnRun ? mine : theirs).metadata[OF_THE_PAGE];
  return {
    ...(typed ? mine : theirs),
    id: mine.id,
    source,
    metadata: trusted === undefined ? metadata : { ...metadata, [OF_THE_PAGE]: trusted },
    ...(attachments && { attachments }),
    ...((typed ? mine : theirs).cell_type === 'code' && {
      outputs: run[0] as nbformat.IOutput[],
      execution_count: run[1] as number | null
    })
  };
}

/** The result of the cell's last run: outputs and execution count. */
export function runOf({ outputs, execution_count }: IMergeCell): ReadonlyPartialJSONArray {
  return [outputs ?? [], execution_count ?? null];
}

/** Merge key by key; if both changed a key, mine wins. */
export function mergeObjects(
  base: ReadonlyPartialJSONObject | undefined,
  mine: ReadonlyPartialJSONObject,
  theirs: ReadonlyPartialJSONObject
): ReadonlyPartialJSONObject {
  const merged: Record<string, ReadonlyPartialJSONValue | undefined> = {};
  for (const key of new Set([...Object.keys(mine), ...Object.keys(theirs)])) {
    const value = pick(base?.[key] ?? null, mine[key], theirs[key]);
    if (value !== undefined) {
      merged[key] = value;
    }
  }
  return merged;
}

/** The value of the only side that changed it; mine if both did. */
function pick<T extends ReadonlyPartialJSONValue | undefined>(
  base: T | undefined,
  mine: T,
  theirs: T
): T {
  return base !== undefined && JSONExt.deepEqual(base ?? null, mine ?? null) ? theirs : mine;
}

interface IHunk {
  start: number;
  end: number;
  pieces: readonly string[];
}

/** The units in which texts are compared. */
interface IPieces {
  split: (text: string) => string[];
  glue: string;
}

const LINES: IPieces = { split: text => text.split('\n'), glue: '\n' };
const CHARACTERS: IPieces = { split: text => [...text], glue: '' };

/** The text with both sides' additions, mine first at the same place; null if a side has more than additions. */
export function mergeAdditions(base: string, mine: string, theirs: string): string | null {
  const isGrown = (text: string): boolean => {
    let found = 0;
    for (const character of text) {
      found += base.startsWith(character, found) ? character.length : 0;
    }
    return found === base.length;
  };
  return isGrown(mine) && isGrown(theirs) ? mergeText(base, mine, theirs, CHARACTERS) : null;
}

/**
 * The text with the changes of both sides, by lines; null if both changed the same lines differently. Lines that both
 * added at the same place are all kept, mine first.
 */
export function mergeText(
  base: string | undefined,
  mine: string,
  theirs: string,
  { split, glue } = LINES
): string | null {
  if (theirs === mine || theirs === base) {
    return mine;
  }
  if (base === undefined) {
    return null;
  }
  if (mine === base) {
    return theirs;
  }
  const pieces = split(base);
  const [own, others] = [hunks(pieces, split(mine)), hunks(pieces, split(theirs))];
  const isOwn = (other: IHunk): boolean =>
    own.some(hunk => JSONExt.deepEqual({ ...hunk }, { ...other }));
  const all = [...own, ...others.filter(other => !isOwn(other))];
  all.sort((a, b) => a.start - b.start || a.end - b.end);
  const merged: string[] = [];
  let position = 0;
  for (const { start, end, pieces: changed } of all) {
    if (start < position) {
      return null;
    }
    merged.push(...pieces.slice(position, start), ...changed);
    position = end;
  }
  return [...merged, ...pieces.slice(position)].join(glue);
}

function hunks(base: string[], text: string[]): IHunk[] {
  const found: IHunk[] = [];
  let position = 0;
  let open: { start: number; end: number; pieces: string[] } | null = null;
  for (const { added, removed, value } of diffArrays(base, text)) {
    if (!added && !removed) {
      position += value.length;
      open = null;
      continue;
    }
    if (!open) {
      open = { start: position, end: position, pieces: [] };
      found.push(open);
    }
    if (added) {
      open.pieces.push(...value);
    } else {
      position += value.length;
      open.end = position;
    }
  }
  return found;
}

/** The ids of both sides in the order of the only side that changed it, mine if both did. */
function mergeOrder(base: string[], mine: string[], theirs: string[]): string[] {
  const [was, here, there] = [new Set(base), new Set(mine), new Set(theirs)];
  const isCommon = (id: string): boolean => was.has(id) && here.has(id) && there.has(id);
  const before = base.filter(isCommon);
  const isKept = mine.filter(isCommon).every((id, at) => before[at] === id);
  const [order, others] = isKept ? [[...theirs], mine] : [[...mine], theirs];
  const placed = new Set(order);
  others.forEach((id, at) => {
    if (!placed.has(id)) {
      order.splice(at ? order.indexOf(others[at - 1]) + 1 : 0, 0, id);
      placed.add(id);
    }
  });
  return order;
}

/**
 * The cells of a file with ids, even if its format does not store them: then the ids of the matching cells in `known`,
 * found by text and position.
 */
export function assignIds(
  cells: readonly nbformat.ICell[],
  known: readonly { id: string; cell_type: string; source: string }[],
  newId: () => string
): IMergeCell[] {
  const plain = cells.map(cell => ({ ...cell, source: text(cell.source) }));
  if (cells.every(({ id }) => typeof id === 'string')) {
    return plain as unknown as IMergeCell[];
  }
  const key = (cell: { cell_type: string; source: string }): string => cell.cell_type + cell.source;
  const ids: (string | undefined)[] = [];
  let left: string[] = []; // cells whose text is not in the file, since the last one whose text is
  let place = 0;
  for (const { added, removed, value } of diffArrays(known.map(key), plain.map(key))) {
    if (removed) {
      left.push(...known.slice(place, place + value.length).map(({ id }) => id));
      place += value.length;
    } else if (added) {
      value.forEach(() => ids.push(left.shift()));
    } else {
      value.forEach((_, at) => ids.push(known[place + at].id));
      place += value.length;
      left = [];
    }
  }
  return plain.map((cell, at) => ({ ...cell, id: ids[at] ?? newId() }));
}

function isSame(a: IMergeCell, b: IMergeCell): boolean {
  return a.source === b.source && a.cell_type === b.cell_type;
}

function text(source: nbformat.MultilineString): string {
  return normalizeLineEnds(typeof source === 'string' ? source : source.join(''));
}

function byId(cells: readonly IMergeCell[]): Map<string, IMergeCell> {
  return new Map(cells.map(cell => [cell.id, cell]));
}
