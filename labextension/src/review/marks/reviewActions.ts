import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { NOTIFICATION_MS, notifyErrors } from '../../api/notifyErrors';
import type { OpenNotebooks } from '../../bridge/openNotebooks';
import { describeConflict } from '../conflicts';
import type { IPendingCell } from '../pending';
import type { Reviews } from '../reviews';
import { button, element } from './element';

/** Buttons in the notebook that keep or take back what was done to a cell, by its turn, or to all cells. */
export class ReviewActions {
  constructor(
    private readonly _reviews: Reviews,
    private readonly _notebooks: OpenNotebooks,
    private readonly _trans: TranslationBundle
  ) {}

  /** For one cell; the wider ones where there is more to decide on. */
  buttons(cell: IPendingCell): HTMLElement {
    const trans = this._trans;
    const { cells, turns } = this._reviews.of(cell.notebook);
    const turn = cell.turns.at(-1)!;
    const ofTurn = cells.filter(other => other.turns.includes(turn));
    return element('span', {
      className: 'jp-Agent-markButtons',
      children: [
        ...this._pair([cell], turns, trans.__('Keep'), trans.__('Revert')),
        ...(ofTurn.length > 1 && turns.length > 1
          ? this._pair(ofTurn, [turn], trans.__('Keep turn'), trans.__('Revert turn'))
          : []),
        ...(cells.length > 1
          ? this._pair(
              cells,
              turns,
              trans.__('Keep all %1', cells.length),
              trans.__('Revert all %1', cells.length)
            )
          : [])
      ]
    });
  }

  private _pair(
    cells: readonly IPendingCell[],
    turns: readonly string[],
    keep: string,
    revert: string
  ): HTMLElement[] {
    const keepButton = button(keep, 'jp-Agent-markButton', () =>
      this._run(keepButton, () => this._reviews.keep(cells, turns))
    );
    const revertButton = button(revert, 'jp-Agent-markButton', () =>
      this._run(revertButton, () => this._revert(cells, turns))
    );
    revertButton.disabled = cells.some(cell => this._reviews.isRunning(cell));
    return [keepButton, revertButton];
  }

  private async _revert(cells: readonly IPendingCell[], turns: readonly string[]): Promise<void> {
    const conflicts = await this._reviews.revert(cells, turns);
    if (conflicts.length) {
      const why = conflicts.map(conflict =>
        describeConflict(conflict, this._notebooks.position(conflict), this._trans)
      );
      Notification.warning([...new Set(why)].join(' '), { autoClose: NOTIFICATION_MS });
    }
  }

  private _run(used: HTMLButtonElement, work: () => Promise<void>): void {
    used.disabled = true;
    void notifyErrors(work, this._trans).finally(() => (used.disabled = false));
  }
}
