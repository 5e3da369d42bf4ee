import type { Event } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

/** Same as `SCHEMA` in `server/announce.py`. */
export const SCHEMA =
  'https://jupyter-live-agent.github.io/jupyter-live-agent/schemas/news/v1.json';

/** What changed: a turn of a conversation, or the conversation's title if `turn_id` is null. */
export interface IAnnouncement {
  readonly conversation_id: string;
  readonly turn_id: string | null;
}

/** Changes that the server announces to every page, made by this page, another one, or a script. */
export class Announcements {
  constructor(events: Event.IManager) {
    events.stream.connect((_, { schema_id, ...news }) => {
      if (schema_id === SCHEMA) {
        this._received.emit(news as unknown as IAnnouncement);
      }
    });
  }

  get received(): ISignal<this, IAnnouncement> {
    return this._received;
  }

  private readonly _received = new Signal<this, IAnnouncement>(this);
}
