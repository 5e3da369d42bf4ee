import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Announcements, IAnnouncement } from '../api/announcements';
import type { AgentClient } from '../api/client';
import type { Assistant } from '../chat/assistant';

/** Prefix of the ids of other agents' conversations over MCP. */
const PREFIX = 'mcp_';

/** Notifies of other agents' questions, whose conversations are not in front, until they are answered. */
export class OtherAgents {
  /** @param _show - Shows the panel. */
  constructor(
    private readonly _client: AgentClient,
    private readonly _assistant: Assistant,
    announcements: Announcements,
    private readonly _show: () => void,
    private readonly _trans: TranslationBundle
  ) {
    announcements.received.connect(this._onAnnounced, this);
  }

  private _onAnnounced(_: Announcements, { conversation_id: id }: IAnnouncement): void {
    if (id.startsWith(PREFIX)) {
      void this._look(id).catch(() => undefined); // the next announcement checks again
    }
  }

  private async _look(id: string): Promise<void> {
    const [turn] = await this._client.waitingTurns(id);
    const asks = turn !== undefined && this._assistant.state.conversation.id !== id;
    const known = this._notifications.get(id);
    if (asks && !known) {
      this._notify(id, turn.title ?? id);
    } else if (!asks && known) {
      Notification.dismiss(known);
      this._notifications.delete(id);
    }
  }

  private _notify(id: string, title: string): void {
    const show = (): void => {
      this._notifications.delete(id);
      this._show();
      this._assistant.show(id);
    };
    const notification = Notification.emit(
      this._trans.__('%1: needs your approval.', title),
      'warning',
      { autoClose: false, actions: [{ label: this._trans.__('Show'), callback: show }] }
    );
    this._notifications.set(id, notification);
  }

  private readonly _notifications = new Map<string, string>();
}
