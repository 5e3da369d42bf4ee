import type { Cell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';
import { highlight } from '../colours';
import type { IPendingCell } from '../pending';
import type { IMarkServices } from './changeMark';
import { DecisionButtons } from './decisionButtons';
import { button, element, guard, leave } from './element';

/** A line in place of a removed cell that unfolds to its text. It is attached to the edge of a neighbouring cell. */
export class RemovedMark implements IDisposable {
  constructor(private readonly _services: IMarkServices) {
    const { actions, trans } = _services;
    this._decisions = new DecisionButtons({
      actions,
      cells: () => (this._pending ? [this._pending] : []),
      labels: { keep: trans.__('Keep'), undo: trans.__('Undo') },
      trans
    });
    this._line = button('', 'jp-Agent-removedLine', () => this._toggle());
    this._node = guard(
      element('div', {
        className: 'jp-Agent-removed',
        attributes: { role: 'group' },
        children: [this._line]
      })
    );
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    leave(this._node, this._node.closest<HTMLElement>('.jp-Cell') ?? document.body);
  }

  /** Show the current state of the deleted cell. */
  show(pending: IPendingCell, mimeType: string): void {
    const { trans } = this._services;
    const lines = pending.base.split('\n');
    const words = trans._n('Deleted cell, 1 line:', 'Deleted cell, %1 lines:', lines.length);
    const shown = JSON.stringify([pending.base, pending.conflict, mimeType]);
    this._pending = pending;
    this._mimeType = mimeType;
    this._decisions.update();
    if (shown === this._shown) {
      return; // the user may be in it, or have selected text
    }
    this._shown = shown;
    this._node.setAttribute('aria-label', trans.__('Deleted cell: %1', lines[0]));
    this._line.replaceChildren(
      element('span', { className: 'jp-Agent-removedSign', children: ['−'] }),
      element('span', {
        className: 'jp-Agent-removedWords',
        children: [words, ' ', element('code', { className: '', children: [lines[0]] })]
      })
    );
    this._showBody();
  }

  /** Attach to the upper or lower edge of a cell, whose own parts come and go. */
  place({ node }: Cell, edge: 'above' | 'below'): void {
    if (edge === 'below' && node.lastElementChild !== this._node) {
      node.append(this._node);
    } else if (edge === 'above' && node.firstElementChild !== this._node) {
      node.prepend(this._node);
    }
  }

  /** Whether this is the change the user is looking at. */
  set current(current: boolean) {
    this._node.classList.toggle('jp-Agent-current', current);
  }

  /** Unfold it and bring it into view. */
  reveal(): void {
    this._isOpen = true;
    this._showBody();
    this._node.scrollIntoView({ block: 'nearest' });
  }

  private _toggle(): void {
    this._isOpen = !this._isOpen;
    this._showBody();
  }

  private _showBody(): void {
    this._line.setAttribute('aria-expanded', String(this._isOpen));
    this._body?.remove();
    this._body = null;
    if (!this._isOpen || !this._pending) {
      return;
    }
    const { trans } = this._services;
    const { conflict } = this._pending;
    const words = element('span', {
      className: 'jp-Agent-markWords',
      children: [conflict ?? trans.__('Deleted by the assistant')]
    });
    this._body = element('div', {
      className: 'jp-Agent-removedBody',
      children: [
        this._text(this._pending),
        element('div', {
          className: 'jp-Agent-markLine',
          children: [words, this._decisions.node]
        })
      ]
    });
    this._node.append(this._body);
  }

  private _text({ base }: IPendingCell): HTMLElement {
    const { languages } = this._services;
    const text = element('pre', { className: 'jp-Agent-removedText', children: [base] });
    void highlight(base, languages.findByMIME(this._mimeType), languages).then(painted =>
      text.replaceChildren(...painted.childNodes)
    );
    return text;
  }

  private readonly _line: HTMLButtonElement;
  private readonly _node: HTMLElement;
  private readonly _decisions: DecisionButtons;
  private _body: HTMLElement | null = null;
  private _pending: IPendingCell | null = null;
  private _mimeType = '';
  /** What the elements show. */
  private _shown = '';
  private _isOpen = false;
  private _isDisposed = false;
}
