import type { Cell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';
import type { IPendingCell } from '../pending';
import type { IMarkServices } from './changeMark';
import { button, element, guard } from './element';

/** A line where a cell was, which unfolds to what stood in it. It lives at the edge of a neighbour, as part of it. */
export class RemovedMark implements IDisposable {
  constructor(private readonly _services: IMarkServices) {
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
    this._node.remove();
  }

  /** Show the current state of the deleted cell. */
  show(pending: IPendingCell, mimeType: string): void {
    const { trans } = this._services;
    const lines = pending.base.split('\n');
    const words = trans._n('Deleted cell, 1 line:', 'Deleted cell, %1 lines:', lines.length);
    this._pending = pending;
    this._mimeType = mimeType;
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

  /** Be at the upper or the lower edge of a cell, whose own parts come and go. */
  place({ node }: Cell, edge: 'above' | 'below'): void {
    if (edge === 'below' && node.lastElementChild !== this._node) {
      node.append(this._node);
    } else if (edge === 'above' && node.firstElementChild !== this._node) {
      node.prepend(this._node);
    }
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
    const { actions, trans } = this._services;
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
          children: [words, actions.buttons(this._pending)]
        })
      ]
    });
    this._node.append(this._body);
  }

  private _text({ base }: IPendingCell): HTMLElement {
    const { languages } = this._services;
    const text = element('pre', { className: 'jp-Agent-removedText', children: [base] });
    const aside = document.createElement('code');
    void languages
      .highlight(base, languages.findByMIME(this._mimeType), aside)
      .then(() => text.replaceChildren(...aside.childNodes));
    return text;
  }

  private readonly _line: HTMLButtonElement;
  private readonly _node: HTMLElement;
  private _body: HTMLElement | null = null;
  private _pending: IPendingCell | null = null;
  private _mimeType = '';
  private _isOpen = false;
  private _isDisposed = false;
}
