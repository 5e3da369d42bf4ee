import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Assistant } from './assistant';
import type { Conversation, Progress } from './conversation';
import type { AssistantPanel } from './panel';

const NEWS = 'jp-Agent-news';
const SHOWN_FOR = 8000; // milliseconds

/** Tells a user who does not see the panel that a turn has ended or waits for them: a mark on the icon, a notification. */
export class News {
  constructor(
    private readonly _assistant: Assistant,
    private readonly _panel: AssistantPanel,
    private readonly _show: () => void,
    private readonly _trans: TranslationBundle
  ) {
    _assistant.changed.connect(this._follow, this);
    _panel.shown.connect(this._seen, this);
    this._follow();
  }

  private _follow(): void {
    const { conversation } = this._assistant.state;
    if (conversation !== this._conversation) {
      this._conversation = conversation; // one that is left disposes, and so disconnects
      this._progress = conversation.state.progress;
      this._asked = 0;
      conversation.changed.connect(this._look, this);
    }
  }

  private _look(conversation: Conversation): void {
    const { progress } = conversation.state;
    const asked = conversation.approvals.length;
    if (asked > this._asked) {
      this._tell(this._trans.__('The assistant waits for your answer.'));
    } else if (this._progress === 'running' && progress !== 'running') {
      this._tell(
        progress === 'failed'
          ? this._trans.__('The assistant could not finish its answer.')
          : this._trans.__('The assistant has answered.')
      );
    }
    this._progress = progress;
    this._asked = asked;
  }

  private _tell(message: string): void {
    if (this._panel.isVisible) {
      return;
    }
    this._panel.title.className = NEWS;
    this._dismiss();
    this._notification = Notification.emit(message, 'default', {
      autoClose: SHOWN_FOR,
      actions: [{ label: this._trans.__('Show'), callback: this._show }]
    });
  }

  private _seen(): void {
    this._panel.title.className = '';
    this._dismiss();
  }

  private _dismiss(): void {
    if (this._notification) {
      Notification.dismiss(this._notification);
      this._notification = '';
    }
  }

  private _conversation: Conversation | null = null;
  private _progress: Progress = 'idle';
  private _asked = 0;
  private _notification = '';
}
