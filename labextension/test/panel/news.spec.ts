import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { Assistant } from '../../src/chat/assistant';
import type { ConversationEvent } from '../../src/chat/conversationEvents';
import { News } from '../../src/panel/news';
import type { AssistantPanel } from '../../src/panel/panel';
import { Store } from '../../src/store';

class Nothing extends Store<readonly never[]> {}

const messages = (): string[] => Notification.manager.notifications.map(({ message }) => message);

/** A page in which the conversation with this last turn is in front; returns how one looks at the panel. */
function open(turnId: string, isVisible: boolean): { look: () => void; end: () => Promise<void> } {
  const conversation = { state: { progress: 'done', messages: [{ metadata: { turnId } }] } };
  const assistant = { state: { conversation }, changes: () => Promise.resolve([]) };
  const happened = new Signal<unknown, ConversationEvent>(assistant);
  const panel = { isVisible, title: {}, showTurn: () => undefined };
  const shown = new Signal<unknown, void>(panel);
  new News(
    Object.assign(assistant, { happened }) as unknown as Assistant,
    new Nothing([]),
    new Nothing([]),
    Object.assign(panel, { shown }) as unknown as AssistantPanel,
    () => undefined,
    nullTranslator.load('jupyter_agent')
  );
  return {
    look: () => {
      panel.isVisible = true;
      shown.emit();
      panel.isVisible = false;
    },
    end: async () => {
      happened.emit('outcomeKnown');
      await new Promise(resolve => setTimeout(resolve));
    }
  };
}

it('announces the end of a turn once, in whichever page', async () => {
  const first = open('turn-1', false);
  await first.end();
  expect(messages()).toEqual(['The assistant has answered.']);
  first.look();
  expect(messages()).toEqual([]);
  await open('turn-2', true).end(); // seen in another page
  first.look();
  await open('turn-2', false).end(); // loaded again
  expect(messages()).toEqual([]);
  await open('turn-3', false).end();
  expect(messages()).toEqual(['The assistant has answered.']);
});
