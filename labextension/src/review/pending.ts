import type { ICellRef, IPendingChange } from '../api/protocol';

/** How a cell differs from its last kept state: added, edited or deleted. */
export type Sign = '+' | '~' | '−';

/** One change of a cell's text. */
export interface ITextChange {
  before: string;
  after: string;
}

/** A cell whose changes are neither kept nor undone, combined into one. */
export interface IPendingCell extends ICellRef {
  sign: Sign;
  /** The text before these changes; empty for a new cell. */
  base: string;
  /** The assistant's changes to its text, oldest first; people may have edited it in between. */
  steps: readonly ITextChange[];
  type: 'code' | 'markdown' | 'raw';
  /** Whether it was moved. */
  moved: boolean;
  /** The turns that changed it, oldest first. */
  turns: readonly string[];
  /** Why it could not be undone, if that was attempted. */
  conflict: string | null;
  /** Where a deleted cell was: ids of the cells above and below, nearest first. */
  above: readonly string[];
  below: readonly string[];
}

/** The cells affected by these changes to one notebook, without those that were added and deleted again. */
export function pendingCells(changes: readonly IPendingChange[]): IPendingCell[] {
  const byCell = Map.groupBy(changes, ({ cell_id }) => cell_id);
  return [...byCell.values()].flatMap(own => {
    const [first, last] = [own[0], own[own.length - 1]];
    const state = last.after ?? last.before;
    if (!state || (!first.before && !last.after)) {
      return [];
    }
    return [
      {
        notebook: first.notebook,
        cell_id: first.cell_id,
        sign: !first.before ? '+' : last.after ? '~' : '−',
        base: first.before?.source ?? '',
        steps: own.map(({ before, after }) => ({
          before: before?.source ?? '',
          after: after?.source ?? ''
        })),
        type: state.type,
        moved: own.some(({ kind }) => kind === 'move'),
        turns: [...new Set(own.map(({ turn_id }) => turn_id))],
        conflict: own.findLast(({ conflict }) => conflict)?.conflict ?? null,
        above: last.before?.above ?? [],
        below: last.before?.below ?? []
      }
    ];
  });
}

/** Whether an edited cell has its old source again, for example by hand or by git. */
export function isBack(pending: IPendingCell, now: { type: string; source: string }): boolean {
  const { base, moved, sign, type } = pending;
  return sign === '~' && !moved && now.source === base && now.type === type;
}

/** Where removed cells are shown: by the id of the cell above, '' at the top. */
export function placesOf(
  removed: readonly IPendingCell[],
  there: readonly string[]
): Map<string, IPendingCell[]> {
  const order = new Map(there.map((id, index) => [id, index]));
  const indexOf = ({ above, below }: IPendingCell): number => {
    for (let distance = 0; distance < Math.max(above.length, below.length); distance++) {
      const upper = order.get(above[distance]);
      const lower = order.get(below[distance]);
      if (upper !== undefined || lower !== undefined) {
        return upper ?? lower! - 1;
      }
    }
    return there.length - 1;
  };
  return Map.groupBy(removed, cell => there[indexOf(cell)] ?? '');
}

/** The cells grouped by turn, newest first, since later changes are undone first. */
export function byTurn(
  cells: readonly IPendingCell[],
  turns: readonly string[]
): Map<string, ICellRef[]> {
  const asked = turns
    .toReversed()
    .map((turn): [string, ICellRef[]] => [
      turn,
      cells
        .filter(cell => cell.turns.includes(turn))
        .map(({ notebook, cell_id }) => ({ notebook, cell_id }))
    ]);
  return new Map(asked.filter(([, refs]) => refs.length));
}
