import type { YCodeCell, YNotebook } from '@jupyter/ydoc';
import { isCodeCellModel } from '@jupyterlab/cells';
import type { ICell, INotebookContent } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import { JSONExt, UUID } from '@lumino/coreutils';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { ICellConflict, IMergeCell } from '../tokens';
import { assignIds, mergeCells, mergeObjects, runOf, withoutTrust } from './merge';
import type { PageCells } from './pageCells';
import { ofType } from './pageCells';

/** A notebook's content from its file, and the ids of its cells in this page, for formats without ids. */
export interface IFileState {
  content: INotebookContent;
  ids: readonly string[];
}

export interface ITaken {
  conflicts: ICellConflict[];
  /** The ids of the file's cells in this page. */
  ids: string[];
  /** Whether the notebook has changes that the file lacks. */
  isAhead: boolean;
}

/** Metadata that JupyterLab writes to each notebook that it opens. */
const OF_JUPYTERLAB = ['kernelspec', 'language_info'];

/**
 * Bring new content of the file into the open notebook, cell by cell, and keep the changes made here.
 *
 * All of it happens in one tick, in which no one types. Changes are written in place: cursors, undo history and scroll
 * position stay.
 *
 * @param base - The last common state of the notebook and the file; null if it is unknown.
 * @param takes - As in `mergeCells`.
 */
export function takeIn(
  cells: PageCells,
  model: INotebookModel,
  base: IFileState | null,
  file: INotebookContent,
  takes: boolean
): ITaken {
  const mine = ofModel(model);
  const known = base && withIds(cellsWithIds(base), mine);
  const theirs = withIds(file.cells, known ?? mine);
  const merged = mergeCells(known, mine, theirs, takes);
  const own = new Map(mine.map(cell => [cell.id, cell]));
  const wanted = merged.cells.map(cell =>
    cells.isTypedIn(cell.id) ? withTypeOf(own.get(cell.id), cell) : cell
  );
  const shared = model.sharedModel as YNotebook;
  const ours = shared.getMetadata() as ReadonlyPartialJSONObject;
  const metadata = mergeObjects(base?.content.metadata, ours, file.metadata);
  cells.preservingPlace(() => {
    write(cells, model, wanted, own);
    if (!JSONExt.deepEqual(metadata, ours)) {
      shared.ydoc.transact(() => shared.setMetadata(metadata as never), cells);
    }
  });
  const isAhead =
    !JSONExt.deepEqual(wanted.map(persistentPart) as never, theirs.map(persistentPart) as never) ||
    !JSONExt.deepEqual(lastingMetadata(metadata), lastingMetadata(file.metadata));
  return { conflicts: merged.conflicts, ids: theirs.map(({ id }) => id), isAhead };
}

/** Set the notebook's cells, with one structural change per transaction: JupyterLab cannot follow more. */
function write(
  cells: PageCells,
  model: INotebookModel,
  wanted: readonly IMergeCell[],
  mine: ReadonlyMap<string, IMergeCell>
): void {
  const shared = model.sharedModel as YNotebook;
  const kept = new Set(wanted.map(({ id }) => id));
  const ids = cells.ids;
  let at = 0;
  for (const cell of wanted) {
    while (at < ids.length && !kept.has(ids[at])) {
      at++;
    }
    if (ids[at] !== cell.id) {
      const from = ids.indexOf(cell.id, at);
      if (from < 0) {
        shared.ydoc.transact(() => shared.insertCell(at, cell as never), cells);
        ids.splice(at, 0, cell.id);
      } else if (cells.isTypedIn(cell.id)) {
        while (ids[at] !== cell.id) {
          move(cells, ids, at, from + 1); // replacing the cell would lose keys
        }
      } else {
        move(cells, ids, from, at);
      }
    }
    const own = mine.get(cell.id);
    if (own && own !== cell) {
      change(cells, model, at, own, cell);
    }
    at++;
  }
  for (let index = ids.length - 1; index >= 0; index--) {
    if (!kept.has(ids[index])) {
      cells.remove(index);
    }
  }
}

/** Move the cell at `from` before the one at `to`, in the notebook and in the list of ids. */
function move(cells: PageCells, ids: string[], from: number, to: number): void {
  cells.replace(from, cells.at(from).clone(), to);
  const [id] = ids.splice(from, 1);
  ids.splice(to > from ? to - 1 : to, 0, id);
}

/** The cell that the user is typing in keeps its type: otherwise it would be replaced, and lose keys. */
function withTypeOf(own: IMergeCell | undefined, cell: IMergeCell): IMergeCell {
  return own && own.cell_type !== cell.cell_type ? { ...own, source: cell.source } : cell;
}

/** Change the cell `own` into `wanted`, in place. */
function change(
  cells: PageCells,
  model: INotebookModel,
  at: number,
  own: IMergeCell,
  wanted: IMergeCell
): void {
  const { ydoc } = model.sharedModel as YNotebook;
  if (own.cell_type !== wanted.cell_type) {
    cells.replace(at, ofType(cells.at(at), wanted.cell_type), at);
  }
  cells.write(at, wanted.source);
  const shared = model.sharedModel.getCell(at);
  if (wanted.cell_type === 'code' && !JSONExt.deepEqual(runOf(own), runOf(wanted))) {
    const code = shared as YCodeCell;
    code.updateOutputs(0, code.outputs.length, [], cells);
    const view = model.cells.get(at);
    if (isCodeCellModel(view)) {
      view.trusted = wanted.metadata.trusted === true; // the outputs are different now
    }
    wanted.outputs?.forEach((output, index) => code.updateOutputs(index, index, [output], cells));
    ydoc.transact(() => (code.execution_count = wanted.execution_count ?? null), cells);
  }
  const metadata = withoutTrust(wanted.metadata);
  const now = shared.getMetadata() as ReadonlyPartialJSONObject;
  if (!JSONExt.deepEqual(metadata, withoutTrust(now))) {
    const { trusted } = now;
    const all = trusted === undefined ? metadata : { ...metadata, trusted };
    ydoc.transact(() => shared.setMetadata(all as never), cells);
  }
  if (
    wanted.attachments &&
    !JSONExt.deepEqual(own.attachments ?? {}, wanted.attachments) &&
    wanted.cell_type !== 'code'
  ) {
    ydoc.transact(
      () => ((shared as unknown as { attachments: object }).attachments = wanted.attachments ?? {}),
      cells
    );
  }
}

function ofModel(model: INotebookModel): IMergeCell[] {
  return [...model.cells].map(({ id, sharedModel }) => ({
    ...(sharedModel.toJSON() as unknown as IMergeCell),
    id
  }));
}

function withIds(cells: readonly ICell[], known: readonly IMergeCell[]): IMergeCell[] {
  return assignIds(cells, known, () => UUID.uuid4());
}

/** The cells with ids, for formats without ids those that they have in the page. */
function cellsWithIds({ content: { cells }, ids }: IFileState): ICell[] {
  return ids.length === cells.length
    ? cells.map((cell, at) => ({ ...cell, id: cell.id ?? ids[at] }))
    : cells;
}

/** How many cells of one notebook have no counterpart in the other, apart from their metadata, and vice versa. */
export function cellsThatDiffer(a: INotebookContent, b: INotebookContent): number {
  const counts = new Map<string, number>();
  const count = (content: INotebookContent, by: number): void =>
    content.cells.map(essence).forEach(cell => counts.set(cell, (counts.get(cell) ?? 0) + by));
  count(a, 1);
  count(b, -1);
  return [...counts.values()].reduce((sum, difference) => sum + Math.abs(difference), 0);
}

/** The content of a cell without metadata, which the server adds and removes. */
function essence({ cell_type, outputs, source }: ICell): string {
  return JSON.stringify([cell_type, source, outputs ?? null]);
}

/** The parts of a cell that every file format has. */
function persistentPart(cell: IMergeCell): unknown {
  const { cell_type, source, metadata, attachments } = cell;
  return [cell_type, source, withoutTrust(metadata), runOf(cell), attachments ?? {}];
}

function lastingMetadata(metadata: ReadonlyPartialJSONObject): ReadonlyPartialJSONObject {
  return Object.fromEntries(
    Object.entries(metadata).filter(([key]) => !OF_JUPYTERLAB.includes(key))
  );
}
