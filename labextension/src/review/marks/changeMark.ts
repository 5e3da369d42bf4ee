import type { Cell } from '@jupyterlab/cells';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { IPendingCell } from '../pending';
import { button, element, guard } from './element';
import type { ReviewActions } from './reviewActions';

/** Services that all marks need. */
export interface IMarkServices {
  actions: ReviewActions;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
}

/** The bar in the gutter of a changed cell, and the difference in place once it was clicked. */
export class ChangeMark implements IDisposable {
  constructor(
    private readonly _cell: Cell,
    private readonly _services: IMarkServices
  ) {
    this._bar = button('', 'jp-Agent-bar', () => void this.toggle());
    guard(this._bar);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._close();
    this._bar.remove();
  }

  /** Show the current state; the position of the cell is counted from 1. */
  show(pending: IPendingCell, position: number): void {
    const { trans } = this._services;
    const again = this._pending && this._pending.base !== pending.base;
    this._pending = pending;
    this._position = position;
    this._bar.textContent = pending.sign;
    this._bar.dataset.sign = pending.sign;
    const name = {
      '+': trans.__('Cell %1 was added by the assistant: show the change', position),
      '~': this._onlyMoved
        ? trans.__('Cell %1 was moved by the assistant: show the change', position)
        : trans.__('Cell %1 was edited by the assistant: show the change', position),
      '−': ''
    }[pending.sign];
    this._bar.title = name;
    this._bar.setAttribute('aria-label', name);
    this._bar.setAttribute('aria-expanded', String(this._isOpen));
    const wrapper = this._wrapper;
    if (wrapper && this._bar.parentElement !== wrapper) {
      wrapper.append(this._bar);
    }
    if (this._isOpen) {
      this._showBox();
      if (again || this._over !== this._editable) {
        this._closeDifference();
        void this._openDifference();
      }
    }
  }

  async toggle(): Promise<void> {
    this._isOpen = !this._isOpen;
    this._bar.setAttribute('aria-expanded', String(this._isOpen));
    if (this._isOpen) {
      this._showBox();
      await this._openDifference();
    } else {
      this._close();
    }
  }

  private _close(): void {
    this._isOpen = false;
    this._closeDifference();
    this._box?.remove();
    this._box = null;
  }

  private _closeDifference(): void {
    this._difference?.dispose();
    this._difference = null;
    this._host.replaceChildren();
  }

  /** Below the input: what was done, and the buttons. JupyterLab takes a cell's own parts out and in as it scrolls. */
  private _showBox(): void {
    const { actions, trans } = this._services;
    const pending = this._pending!;
    const conflict = pending.conflict
      ? element('span', { className: 'jp-Agent-markConflict', children: [pending.conflict] })
      : null;
    const words =
      pending.sign === '+'
        ? trans.__('Added by the assistant')
        : this._onlyMoved
          ? trans.__('Moved by the assistant')
          : trans.__('Edited by the assistant');
    const content = element('div', {
      className: 'jp-Agent-markLine',
      children: [
        element('span', { className: 'jp-Agent-markWords', children: [words] }),
        conflict,
        actions.buttons(pending)
      ]
    });
    this._box ??= guard(
      element('div', { className: 'jp-Agent-markBox', attributes: { role: 'group' } })
    );
    this._box.setAttribute('aria-label', trans.__('Change in cell %1', this._position));
    this._box.replaceChildren(this._host, content);
    const wrapper = this._wrapper;
    if (wrapper && wrapper.nextSibling !== this._box) {
      wrapper.after(this._box);
    }
  }

  private async _openDifference(): Promise<void> {
    const { showBelow, showInEditor } = await import('./difference');
    const { editor } = this._cell;
    if (!this._isOpen || this._difference || this.isDisposed) {
      return;
    }
    const { base } = this._pending!;
    this._over = this._editable;
    this._difference =
      this._over && editor
        ? showInEditor(editor, base)
        : showBelow(this._cell, base, this._services.languages, this._host);
  }

  private get _onlyMoved(): boolean {
    const { base, moved } = this._pending!;
    return moved && this._cell.model.sharedModel.getSource() === base;
  }

  /** Whether the text is shown in an editor: not that of rendered Markdown, and not where the input is folded. */
  private get _editable(): boolean {
    const { inputHidden, editor, model } = this._cell;
    return !inputHidden && editor !== null && model.type !== 'markdown';
  }

  private get _wrapper(): HTMLElement | null {
    return this._cell.node.querySelector(':scope > .jp-Cell-inputWrapper');
  }

  private readonly _bar: HTMLButtonElement;
  private readonly _host = element('div', { className: 'jp-Agent-markDiff' });
  private _box: HTMLElement | null = null;
  private _difference: IDisposable | null = null;
  private _pending: IPendingCell | null = null;
  private _position = 0;
  private _over = true;
  private _isOpen = false;
  private _isDisposed = false;
}
