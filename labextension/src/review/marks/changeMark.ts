import type { Cell } from '@jupyterlab/cells';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { assistantLines } from '../authorship';
import { countLines } from '../diff';
import type { IPendingCell } from '../pending';
import type { ReviewActions } from '../reviewActions';
import { DecisionButtons } from './decisionButtons';
import { showBelow, showInEditor } from './difference';
import { button, element, guard, leave } from './element';

/** Number of removed lines, or of lines in a diff below a cell, shown before "Show all". */
export const MOST_LINES = 20;

/** Services that all marks need. */
export interface IMarkServices {
  actions: ReviewActions;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
}

/** The bar in the gutter of a changed cell, and its diff in place with a header to keep or undo it. */
export class ChangeMark implements IDisposable {
  constructor(
    private readonly _cell: Cell,
    private readonly _services: IMarkServices
  ) {
    const { actions, trans } = _services;
    this._bar = guard(button('', 'jp-Agent-bar', () => this._toggle()));
    this._fold = button('', 'jp-Agent-markLink', () => this._showWhole());
    this._decisions = new DecisionButtons({
      actions,
      cells: () => (this._pending ? [this._pending] : []),
      labels: { keep: trans.__('Keep'), undo: trans.__('Undo') },
      trans
    });
    this._head = guard(
      element('div', {
        className: 'jp-Agent-markHead',
        attributes: { role: 'group' },
        children: [this._words, this._conflict, this._fold, this._decisions.node]
      })
    );
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._close();
    this._bar.remove();
    this._cell.removeClass('jp-Agent-current');
  }

  /**
   * Show the current state.
   *
   * @param position - The cell's position, counted from 1.
   * @param open - Whether the diff is shown by default.
   */
  show(pending: IPendingCell, position: number, open: boolean): void {
    const { trans } = this._services;
    const other = this._pending !== pending;
    this._pending = pending;
    this._position = position;
    this._isOpen = this._chosen ?? open;
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
    if (!this._isOpen) {
      this._close();
      return;
    }
    this._showHead();
    if (other || this._over !== this._editable) {
      this._closeDifference();
    }
    this._openDifference();
  }

  /** Whether this is the change the user is looking at. */
  set current(current: boolean) {
    this._cell.toggleClass('jp-Agent-current', current);
  }

  private _toggle(): void {
    this._chosen = !this._isOpen;
    this.show(this._pending!, this._position, this._chosen);
  }

  private _close(): void {
    this._closeDifference();
    this._cell.removeClass('jp-Agent-inserted');
    leave(this._head, this._cell.node);
    this._host.remove();
  }

  private _closeDifference(): void {
    this._difference?.dispose();
    this._difference = null;
    this._host.replaceChildren();
  }

  /** Show the header above the input. JupyterLab removes and re-adds a cell's own parts as it scrolls. */
  private _showHead(): void {
    const { trans } = this._services;
    const pending = this._pending!;
    this._head.setAttribute('aria-label', trans.__('Change in cell %1', this._position));
    this._conflict.textContent = pending.conflict ?? '';
    this._decisions.update();
    if (this._counted !== pending) {
      this._counted = pending;
      const lines = assistantLines(pending);
      const { added, removed } = countLines(lines);
      this._words.replaceChildren(
        ...this._about(pending),
        ...(added ? [element('ins', { className: '', children: [`+${added}`] }), ' '] : []),
        ...(removed ? [element('del', { className: '', children: [`−${removed}`] })] : [])
      );
      this._long = Math.max(removed, this._editable ? 0 : lines.length);
    }
    this._fold.hidden = this._isWhole || this._long <= MOST_LINES;
    this._fold.textContent = trans.__('Show all %1 lines', this._long);
    this._cell.toggleClass('jp-Agent-folded', !this._fold.hidden);
    const wrapper = this._wrapper;
    if (wrapper && wrapper.previousSibling !== this._head) {
      wrapper.before(this._head);
    }
    if (wrapper && wrapper.nextSibling !== this._host) {
      wrapper.after(this._host);
    }
  }

  private _about({ sign }: IPendingCell): (string | Node)[] {
    const { trans } = this._services;
    const words =
      sign === '+'
        ? trans.__('Assistant, new cell')
        : this._onlyMoved
          ? trans.__('Assistant, moved')
          : trans.__('Assistant');
    return [words, ' '];
  }

  private _showWhole(): void {
    this._isWhole = true;
    this._showHead();
    this._cell.editor?.focus(); // the button has disappeared
  }

  /** Open the diff; a new cell is tinted instead, without a diff. */
  private _openDifference(): void {
    const pending = this._pending!;
    const { editor } = this._cell;
    this._cell.toggleClass('jp-Agent-inserted', pending.sign === '+');
    if (this._difference || pending.sign === '+' || this._cell.isPlaceholder()) {
      return;
    }
    this._over = this._editable;
    this._difference =
      this._over && editor
        ? showInEditor(editor, pending)
        : showBelow(this._cell, pending, this._services.languages, this._host);
  }

  private get _onlyMoved(): boolean {
    const { base, moved } = this._pending!;
    return moved && this._cell.model.sharedModel.getSource() === base;
  }

  /** Whether the text is shown in an editor: not for rendered Markdown or a folded input. */
  private get _editable(): boolean {
    const { inputHidden, editor, model } = this._cell;
    return !inputHidden && editor !== null && model.type !== 'markdown';
  }

  private get _wrapper(): HTMLElement | null {
    return this._cell.node.querySelector(':scope > .jp-Cell-inputWrapper');
  }

  private readonly _bar: HTMLButtonElement;
  private readonly _head: HTMLElement;
  private readonly _words = element('span', { className: 'jp-Agent-markWords' });
  private readonly _conflict = element('span', { className: 'jp-Agent-markConflict' });
  private readonly _fold: HTMLButtonElement;
  private readonly _decisions: DecisionButtons;
  private readonly _host = element('div', { className: 'jp-Agent-markDiff' });
  private _difference: IDisposable | null = null;
  private _pending: IPendingCell | null = null;
  /** The change whose lines the header counts. */
  private _counted: IPendingCell | null = null;
  private _position = 0;
  /** Number of lines that can be folded. */
  private _long = 0;
  private _over = true;
  /** Whether the user has opened or closed it; null if neither. */
  private _chosen: boolean | null = null;
  private _isOpen = false;
  private _isWhole = false;
  private _isDisposed = false;
}
