import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { NOTIFICATION_MS, notifyErrors } from '../wording/notifyErrors';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { ChangeWalk } from './changeWalk';
import { describeConflict } from './conflicts';
import type { IPendingCell } from './pending';
import type { Reviews } from './reviews';

/**
 * Keeps and undoes changes outside of the panel: shows failures, and cells that could not be undone, as notifications.
 */
export class ReviewActions {
  constructor(
    private readonly _reviews: Reviews,
    private readonly _walk: ChangeWalk,
    private readonly _notebooks: OpenNotebooks,
    private readonly _trans: TranslationBundle
  ) {}

  /** All changes to review in a notebook, or in all, including cells that are back to their old text. */
  waiting(notebook?: string): IPendingCell[] {
    const paths = notebook === undefined ? [...this._reviews.state.keys()] : [notebook];
    return paths.flatMap(path => [...this._reviews.of(path).cells]);
  }

  /** Whether a turn that changed one of the cells is still running, so they cannot be undone yet. */
  isRunning(cells: readonly IPendingCell[]): boolean {
    return cells.some(cell => this._reviews.isRunning(cell));
  }

  keep(cells: readonly IPendingCell[]): Promise<void> {
    return notifyErrors(() => this._reviews.keep(cells), this._trans);
  }

  /** A new cell in whose editor the user is goes too: they asked for it. */
  undo(cells: readonly IPendingCell[]): Promise<void> {
    cells.filter(({ sign }) => sign === '+').forEach(cell => this._notebooks.leave(cell));
    return notifyErrors(async () => {
      const conflicts = await this._reviews.revert(cells);
      if (conflicts.length) {
        const why = conflicts.map(conflict =>
          describeConflict(conflict, this._notebooks.position(conflict), this._trans)
        );
        Notification.warning([...new Set(why)].join(' '), { autoClose: NOTIFICATION_MS });
      }
    }, this._trans);
  }

  /**
   * Keep or undo the current change, and move to the next one. The user is moved immediately, not when the server has
   * answered: by then they may be typing.
   */
  async decide(decision: 'keep' | 'undo'): Promise<void> {
    const { current, cells } = this._walk.state;
    if (!current || (decision === 'undo' && this.isRunning([current]))) {
      return;
    }
    const index = cells.indexOf(current);
    const next = cells[index + 1] ?? cells[index - 1];
    const revealed = next && this._walk.reveal(next);
    await Promise.all([this[decision]([current]), revealed]);
  }
}
