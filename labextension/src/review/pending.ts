import type { ICellRef, IPendingChange } from '../api/protocol';

/** What happened to a cell since it was last as a person knows it. */
export type Sign = '+' | '~' | '−';

/** A cell with changes that nobody has kept or taken back, all of them taken together. */
export interface IPendingCell extends ICellRef {
  sign: Sign;
  /** The text before these changes; empty for a cell that was not there. */
  base: string;
  type: 'code' | 'markdown' | 'raw';
  /** It was put elsewhere. */
  moved: boolean;
  /** The turns that changed it, the first one first. */
  turns: readonly string[];
  /** Why it could not be taken back, where somebody tried. */
  conflict: string | null;
  /** Where a deleted cell was: ids of the cells above and below, nearest first. */
  above: readonly string[];
  below: readonly string[];
}

/** The cells that these changes of one notebook are about; one that was added and is gone again is not. */
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

/** Whether a cell that was edited is as it was before: by hand, by git, whoever wrote it. */
export function isBack(pending: IPendingCell, now: { type: string; source: string }): boolean {
  const { base, moved, sign, type } = pending;
  return sign === '~' && !moved && now.source === base && now.type === type;
}

/** Where the removed cells are told: behind which of the cells that are there, by id; '' in front of all. */
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

/** The cells by the turns that have to be asked, the last turn first: what came later is taken back first. */
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
