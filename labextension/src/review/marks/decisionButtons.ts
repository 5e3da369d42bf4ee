import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPendingCell } from '../pending';
import type { ReviewActions } from '../reviewActions';
import { button, element } from './element';

interface IDecisionOptions {
  actions: ReviewActions;
  /** The changes to decide on, read when a button is pressed. */
  cells: () => readonly IPendingCell[];
  labels: { keep: string; undo: string };
  trans: TranslationBundle;
}

/** Two buttons that undo and keep changes: "Undo" and "Keep", or "Undo all" and "Keep all". */
export class DecisionButtons {
  constructor(private readonly _options: IDecisionOptions) {
    const { actions, cells, labels } = _options;
    const make = (label: string, className: string, act: () => Promise<void>): HTMLButtonElement =>
      button(label, `jp-Agent-markButton ${className}`, () => {
        if (!this._isBusy) {
          this._isBusy = true; // not disabled: a button that has the focus would lose it
          void act().finally(() => (this._isBusy = false));
        }
      });
    this._undo = make(labels.undo, '', () => actions.undo(cells()));
    const keep = make(labels.keep, 'jp-mod-primary', () => actions.keep(cells()));
    this.node = element('span', {
      className: 'jp-Agent-decisions',
      children: [this._undo, keep]
    });
  }

  /** Update the state: a change cannot be undone while the turn that made it is running. */
  update(): void {
    const { actions, cells, trans } = this._options;
    const running = actions.isRunning(cells());
    this._undo.disabled = running;
    this._undo.title = running ? trans.__('Can be undone when the answer is finished') : '';
  }

  readonly node: HTMLElement;
  private readonly _undo: HTMLButtonElement;
  private _isBusy = false;
}
