import type { Event } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

const SCHEMA = 'urn:jupyter-agent:news:v1';

/** What is another now, for whoever shows it: a turn of a conversation, or its title. */
export interface IAnnouncement {
  readonly conversation_id: string;
  readonly turn_id: string | null;
}

/** What the server tells every page, whoever did it: this page, another one, another browser, a script. */
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
