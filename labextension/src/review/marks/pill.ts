import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ChangeWalk } from '../changeWalk';
import type { IPendingCell } from '../pending';
import { countOf } from '../countWords';
import type { IMarkServices } from './changeMark';
import { DecisionButtons } from './decisionButtons';
import { button, element, keepFocus, leave } from './element';

/** Floats at the bottom of a notebook with changes to review: moves through them, and keeps or undoes them. */
export class Pill {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _walk: ChangeWalk,
    private readonly _services: IMarkServices
  ) {
    const { actions, trans } = _services;
    const previous = trans.__('Previous change');
    const next = trans.__('Next change');
    const step = (sign: string, label: string, by: 1 | -1): HTMLButtonElement => {
      const made = button(
        sign,
        'jp-Agent-markButton jp-Agent-step',
        () => void this._go(made, by),
        {
          'aria-label': label,
          title: label
        }
      );
      return made;
    };
    this._decisions = new DecisionButtons({
      actions,
      cells: () => actions.waiting(_panel.context.path),
      labels: { keep: trans.__('Keep all'), undo: trans.__('Undo all') },
      trans
    });
    this._node = element('div', {
      className: 'jp-Agent-pill',
      attributes: { role: 'group', 'aria-label': trans.__('Review') },
      children: [this._words, step('‹', previous, -1), step('›', next, 1), this._decisions.node]
    });
    keepFocus(this._node);
  }

  /** Show where the user is among these changes; nothing if there aren't any. */
  show(shown: readonly IPendingCell[]): void {
    if (!shown.length) {
      leave(this._node, this._panel.content.activeCell?.node ?? this._panel.content.node);
      return;
    }
    const { current } = this._walk.state;
    const words = countOf(shown, current, this._services.trans);
    if (this._words.textContent !== words) {
      this._words.textContent = words; // it is read out
    }
    this._decisions.update();
    if (!this._node.isConnected) {
      this._panel.node.append(this._node);
    }
  }

  /** Focus the cell; keyboard users stay at the button. */
  private async _go(used: HTMLButtonElement, step: 1 | -1): Promise<void> {
    const focused = document.activeElement === used;
    await this._walk.go(step);
    if (focused) {
      used.focus();
    }
  }

  private readonly _words = element('span', {
    className: 'jp-Agent-pillWords',
    attributes: { role: 'status' }
  });
  private readonly _node: HTMLElement;
  private readonly _decisions: DecisionButtons;
}
