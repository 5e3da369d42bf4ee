import type { TranslationBundle } from '@jupyterlab/translation';
import { UUID } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { Attachment } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Assistant } from '../chat/assistant';
import { withSeconds } from '../wording/callDescriptions';
import type { AskedState } from './askedState';
import { askedState } from './askedState';
import type { IStatus } from './statusWords';
import { statusOf } from './statusWords';

interface IAskedCellOptions {
  assistant: Assistant;
  notebooks: OpenNotebooks;
  /** The current path of the notebook. */
  notebook: () => string;
  cellId: string;
  trans: TranslationBundle;
}

/** A question about one cell, in the conversation in front, and its progress. */
export class AskedCell implements IDisposable {
  constructor(private readonly _options: IAskedCellOptions) {
    const { assistant } = _options;
    assistant.happened.connect(this._emit, this);
    assistant.queue.changed.connect(this._emit, this);
  }

  /** Emitted when the status may have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearInterval(this._timer);
    Signal.clearData(this);
  }

  /** Earlier questions, newest last. */
  get history(): readonly string[] {
    return this._options.assistant.history.asked;
  }

  /** Whether its turn is running. */
  get isWorking(): boolean {
    return this._state === 'working';
  }

  /** The status of the question; null if none was asked. */
  get status(): IStatus | null {
    const { assistant, notebooks, trans } = this._options;
    const state = this._state;
    if (state === null) {
      return null;
    }
    const { conversation } = assistant.state;
    const model = assistant.models.answering;
    const tools = assistant.tools.find;
    const context = { id: this._id, state, conversation, model, notebooks, tools };
    const status = statusOf({ ...context, elapsed: this._elapsed }, trans);
    if (status.key !== this._key) {
      this._key = status.key;
      this._since = Date.now();
    }
    const counts = status.live && status.key !== 'retry';
    const words = counts ? withSeconds(status.words, this._elapsed, trans) : status.words;
    return { ...status, words };
  }

  /** Ask, now or when the running turn has ended. A question that the server did not accept is resent unchanged. */
  ask(text: string): void {
    const { assistant } = this._options;
    const { conversation } = assistant.state;
    const again = this._state === 'refused' && text === this._text;
    assistant.history.add(text);
    this._text = text;
    if (again) {
      void conversation.retry(assistant.choices, this._id);
    } else {
      this._id = UUID.uuid4();
      const about = { notebook: this._options.notebook(), context: this._attachments };
      void assistant.ask(text, about, this._id);
    }
    this._timer ||= window.setInterval(() => this.isWorking && this._emit(), 1000);
    this._emit();
  }

  async stop(): Promise<void> {
    await this._options.assistant.state.conversation.stop();
  }

  /** The user is writing another question. */
  forget(): void {
    if (this._id && this._state !== 'refused') {
      this._id = '';
      this._emit();
    }
  }

  private get _state(): AskedState | null {
    const { conversation } = this._options.assistant.state;
    const { state } = this._options.assistant.queue;
    return this._id ? askedState(this._id, conversation.state, state) : null;
  }

  /** The cell, and the selection in it. */
  private get _attachments(): Attachment[] {
    const { cellId: cell_id, notebooks } = this._options;
    const notebook = this._options.notebook();
    const selected = (notebooks.place?.attachments ?? []).filter(
      one => one.type === 'selection' && one.notebook === notebook && one.cell_id === cell_id
    );
    return [{ type: 'cell', notebook, cell_id }, ...selected];
  }

  private get _elapsed(): number {
    return Math.floor((Date.now() - this._since) / 1000);
  }

  private _emit(): void {
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  /** The id of the sent message, or empty. */
  private _id = '';
  private _text = '';
  private _key = '';
  private _since = 0;
  private _timer = 0;
  private _isDisposed = false;
}
