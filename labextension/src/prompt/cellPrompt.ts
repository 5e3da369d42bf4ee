import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { Recall } from '../composer/questionHistory';
import { button, element, guard } from '../review/marks/element';
import type { AskedCell } from './askedCell';
import type { IStatus } from './statusWords';
import type { WrittenTexts } from './writtenTexts';

interface ICellPromptOptions {
  panel: NotebookPanel;
  cellId: string;
  asked: AskedCell;
  texts: WrittenTexts;
  /** Show the panel with the answer. */
  showPanel: () => void;
  trans: TranslationBundle;
}

/** A line at a cell in which the user asks about it, and which shows the progress of the answer. */
export class CellPrompt implements IDisposable {
  constructor(private readonly _options: ICellPromptOptions) {
    const { asked, cellId, panel, texts, trans } = _options;
    this._isEditing = panel.content.mode === 'edit';
    this._field = element('input', {
      className: 'jp-Agent-promptField',
      attributes: {
        type: 'text',
        'aria-label': trans.__('Ask about this cell'),
        autocomplete: 'off',
        spellcheck: 'true'
      }
    });
    this._field.value = texts.get(cellId);
    this._stop = button(trans.__('Stop'), 'jp-Agent-markButton', () => void asked.stop(), {
      title: trans.__('Stop (Esc)')
    });
    this._show = button('', 'jp-Agent-markLink', _options.showPanel);
    this._close = button('×', 'jp-Agent-markLink jp-Agent-promptClose', () => this.close(), {
      'aria-label': trans.__('Close'),
      title: trans.__('Close (Esc)')
    });
    this._node = guard(
      element('div', {
        className: 'jp-Agent-prompt',
        attributes: { role: 'group', 'aria-label': trans.__('Ask the assistant') },
        children: [this._field, this._status, this._stop, this._show, this._close]
      })
    );
    this._status.prepend(this._dot, this._words);
    this._node.addEventListener('keydown', event => this._onKeyDown(event));
    this._node.addEventListener('focusin', () => (this._hasFocus = true));
    this._node.addEventListener('focusout', event => {
      this._hasFocus = event.relatedTarget === null && !this._node.isConnected;
    });
    this._field.addEventListener('input', () => {
      texts.set(cellId, this._field.value);
      asked.forget();
    });
    panel.content.model?.cells.changed.connect(this._schedule, this);
    panel.content.modelChanged.connect(this.dispose, this);
    panel.disposed.connect(this.dispose, this);
    asked.changed.connect(this._update, this);
    this._place();
    this._update();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get cellId(): string {
    return this._options.cellId;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      cancelAnimationFrame(this._frame);
      this._node.remove();
      this._options.asked.dispose();
      Signal.clearData(this);
    }
  }

  /** Focus the field; `text`, if given, becomes its content. */
  focus(text?: string): void {
    if (text !== undefined && !this._field.readOnly) {
      this._field.value = text;
      this._options.texts.set(this.cellId, text);
    }
    if (!this.isDisposed) {
      this._field.focus();
    }
  }

  /** Remove the line; if it has the focus, that returns to the cell. */
  close(): void {
    const { panel } = this._options;
    const hadFocus = this._node.contains(document.activeElement);
    const cell = this._cell;
    this.dispose();
    if (hadFocus && cell) {
      if (this._isEditing && cell.editor && cell.editorWidget?.isVisible) {
        panel.content.mode = 'edit';
        cell.editor.focus();
      } else {
        panel.content.node.focus({ preventScroll: true });
      }
    }
  }

  private _onKeyDown(event: KeyboardEvent): void {
    event.stopPropagation();
    if (event.isComposing) {
      return;
    }
    const { asked } = this._options;
    if (event.key === 'Escape') {
      event.preventDefault();
      if (asked.isWorking) {
        void asked.stop();
      } else {
        this.close();
      }
    } else if (event.target !== this._field || this._field.readOnly) {
      return;
    } else if (event.key === 'Enter') {
      event.preventDefault();
      this._send();
    } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      this._browse(event);
    }
  }

  private _send(): void {
    const text = this._field.value.trim();
    if (text) {
      this._options.asked.ask(text);
    }
  }

  /** Browse earlier questions, as in a terminal, without overwriting the user's text. */
  private _browse(event: KeyboardEvent): void {
    const step = event.key === 'ArrowUp' ? -1 : 1;
    const text = this._recall.go(step, this._field.value, this._options.asked.history);
    if (text !== null) {
      event.preventDefault();
      this._field.value = text;
      this._options.texts.set(this.cellId, text);
    }
  }

  /** Show the progress of the question. */
  private _update(): void {
    const { asked, cellId, texts, trans } = this._options;
    const { status } = asked;
    if (status?.accepted) {
      texts.set(cellId, ''); // it is in the conversation, or in its queue
    }
    if (status?.reusable) {
      texts.set(cellId, this._field.value);
    }
    if (status?.over) {
      this.close();
      return;
    }
    const locked = status?.locked ?? false;
    if (this._node.contains(document.activeElement) && this._stop === document.activeElement) {
      this._field.focus({ preventScroll: true }); // the button may disappear
    }
    this._field.readOnly = locked;
    this._field.placeholder = this._cell?.model.sharedModel.getSource().trim()
      ? trans.__('Ask about this cell, or say how to change it…')
      : trans.__('Say what to write here…');
    this._node.classList.toggle('jp-mod-asked', status !== null);
    this._status.hidden = status === null;
    this._stop.hidden = !asked.isWorking;
    this._close.hidden = asked.isWorking;
    this._showStatus(status);
  }

  private _showStatus(status: IStatus | null): void {
    this._dot.hidden = !status?.live;
    const words = status?.words ?? '';
    this._status.setAttribute('role', status?.live ? 'timer' : 'status');
    if (this._words.textContent !== words) {
      this._words.textContent = words;
      this._words.title = words;
    }
    this._show.hidden = !status?.show;
    this._show.textContent = status?.show ?? '';
  }

  private _schedule(): void {
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      this._place();
    });
  }

  /** Attach to the cell's current widget, which a move recreates; close if the cell is deleted. */
  private _place(): void {
    const cell = this._cell;
    if (!cell) {
      this.dispose();
      return;
    }
    if (this._node.parentElement !== cell.node) {
      const { activeElement } = document;
      const lost = activeElement === document.body || activeElement?.contains(cell.node);
      cell.node.prepend(this._node);
      if (this._hasFocus && lost) {
        this._field.focus({ preventScroll: true });
      }
    }
  }

  private get _cell(): Cell | undefined {
    const { cellId, panel } = this._options;
    return panel.content.widgets.find(({ model }) => model.id === cellId);
  }

  private readonly _node: HTMLElement;
  private readonly _field: HTMLInputElement;
  private readonly _dot = element('span', {
    className: 'jp-Agent-dot',
    attributes: { 'aria-hidden': 'true' }
  });
  private readonly _words = element('span', { className: 'jp-Agent-promptWords' });
  private readonly _status = element('span', { className: 'jp-Agent-promptStatus' });
  private readonly _stop: HTMLButtonElement;
  private readonly _show: HTMLButtonElement;
  private readonly _close: HTMLButtonElement;
  /** Whether the user was typing in the cell before. */
  private readonly _isEditing: boolean;
  private readonly _recall = new Recall();
  private _hasFocus = false;
  private _frame = 0;
  private _isDisposed = false;
}
