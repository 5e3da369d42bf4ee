import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { NOTIFICATION_MS } from '../wording/notifyErrors';
import type { IChange } from '../api/protocol';
import type { Assistant } from '../chat/assistant';
import type { Conversation } from '../chat/conversation';
import type { ConversationEvent } from '../chat/conversationEvents';
import type { IUnsavedText } from '../review/unsavedTexts';
import { inBrowser } from '../storage';
import type { Store } from '../store';
import type { AssistantPanel } from './panel';

const NEWS_CLASS = 'jp-Agent-news';
const LAST_SEEN_KEY = 'jupyter-agent:seen';

/**
 * Notifies a user who was away: a mark on the icon, and a notification that opens the turn.
 *
 * A user is away if the panel is hidden, another page is in front, or this one was closed.
 */
export class News {
  /** @param _show - Shows the panel. */
  constructor(
    private readonly _assistant: Assistant,
    conflicts: Store<readonly unknown[]>,
    unsaved: Store<readonly IUnsavedText[]>,
    private readonly _panel: AssistantPanel,
    private readonly _show: () => void,
    private readonly _trans: TranslationBundle
  ) {
    _assistant.happened.connect(this._onHappened, this);
    const both = _trans.__('A cell was changed here and in its file. Decide which to keep.');
    this._tellNew(conflicts, both);
    this._tellNew(unsaved, both, ({ cause }) => cause === 'file');
    this._tellNew(
      unsaved,
      _trans.__('Some typing was not saved. Choose what to restore.'),
      ({ cause }) => cause !== 'file'
    );
    _panel.shown.connect(this._onShown, this);
    document.addEventListener('visibilitychange', () => this._markSeen());
  }

  /** Notify when there are more decisions of that kind. */
  private _tellNew<T>(
    decisions: Store<readonly T[]>,
    words: string,
    isOfKind: (decision: T) => boolean = () => true
  ): void {
    let former = decisions.state.filter(isOfKind).length;
    decisions.changed.connect(({ state }) => {
      const { length } = state.filter(isOfKind);
      if (length > former) {
        this._notify(words, '');
      }
      former = length;
    });
  }

  private _onHappened({ state: { conversation } }: Assistant, event: ConversationEvent): void {
    if (event === 'asked') {
      this._notify(this._trans.__('The assistant needs your approval.'), '');
    } else if (event === 'outcomeKnown' && conversation.state.progress !== 'stopped') {
      void this._notifyOfOutcome(conversation);
    }
  }

  /** Notify of the end of a turn once, even if it ended while no page was open. */
  private async _notifyOfOutcome(conversation: Conversation): Promise<void> {
    const { messages, progress } = conversation.state;
    const turnId = messages.at(-1)?.metadata?.turnId ?? '';
    if (!turnId || inBrowser.read(LAST_SEEN_KEY) === turnId) {
      return;
    }
    if (this._isVisible) {
      inBrowser.write(LAST_SEEN_KEY, turnId);
      return;
    }
    const changes = await this._assistant.changes(turnId).catch(() => []); // optional
    const outcome =
      progress === 'done'
        ? this._trans.__('The assistant has answered.')
        : this._trans.__('The assistant could not finish its answer.');
    this._notify([outcome, this._summary(changes)].filter(Boolean).join(' '), turnId);
  }

  /** "3 cells changed in sales.ipynb." */
  private _summary(changes: readonly IChange[]): string {
    const changed = changes.filter(({ kind, undone }) => kind !== 'outputs' && !undone);
    const cells = new Set(changed.map(({ cell_id }) => cell_id)).size;
    const notebooks = [...new Set(changed.map(({ notebook }) => PathExt.basename(notebook)))];
    return cells
      ? this._trans._n(
          '1 cell changed in %2.',
          '%1 cells changed in %2.',
          cells,
          notebooks.join(', ')
        )
      : '';
  }

  private _notify(message: string, turnId: string): void {
    if (this._isVisible) {
      return;
    }
    this._panel.title.className = NEWS_CLASS;
    this._dismiss();
    this._turnId = turnId;
    const show = (): void => {
      this._show();
      void this._panel.showTurn(turnId);
    };
    this._notification = Notification.emit(message, 'default', {
      autoClose: document.hidden ? false : NOTIFICATION_MS, // kept until the user comes back
      actions: [
        {
          label: this._trans.__('Show'),
          caption: this._trans.__('Open the answer'),
          callback: show
        }
      ]
    });
  }

  private get _isVisible(): boolean {
    return this._panel.isVisible && !document.hidden;
  }

  /** The notification is not needed any more when the panel is opened. */
  private _onShown(): void {
    this._dismiss();
    this._markSeen();
  }

  private _markSeen(): void {
    if (this._isVisible) {
      this._panel.title.className = '';
      if (this._turnId) {
        inBrowser.write(LAST_SEEN_KEY, this._turnId);
        this._turnId = ''; // a later turn may be seen by now
      }
    }
  }

  private _dismiss(): void {
    if (this._notification) {
      Notification.dismiss(this._notification);
      this._notification = '';
    }
  }

  private _notification = '';
  private _turnId = '';
}
