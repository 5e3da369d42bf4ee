import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import type { Assistant } from '../../src/chat/assistant';
import { OtherAgents } from '../../src/panel/otherAgents';
import { json, Server } from '../server';

const ID = 'mcp_1';
const TITLE = 'Claude Code, sales.ipynb';

describe('OtherAgents', () => {
  let server: Server;
  let state: string;
  let shown: string[];

  beforeEach(() => {
    server = new Server();
    state = 'waiting';
    shown = [];
    server.routes['GET turns'] = () =>
      json({ turns: state === 'waiting' ? [{ title: TITLE }] : [], next_page: null });
    const assistant = {
      state: { conversation: { id: 'mine' } },
      show: (id: string) => shown.push(id)
    } as unknown as Assistant;
    const trans = nullTranslator.load('jupyter_agent');
    new OtherAgents(
      server.client,
      assistant,
      server.announcements,
      () => shown.push('panel'),
      trans
    );
  });

  afterEach(() => Notification.dismiss());

  const settled = async (): Promise<void> => {
    for (let turns = 0; turns < 50; turns++) {
      await Promise.resolve();
      await new Promise(resolve => setTimeout(resolve, 0));
    }
  };

  it('notifies once of a question, leads to it, and stops when it is answered', async () => {
    server.announce(ID, 't1');
    server.announce(ID, null);
    await settled();
    const [notification, ...others] = Notification.manager.notifications;
    expect(others).toEqual([]);
    expect(notification.message).toBe(`${TITLE}: needs your approval.`);
    notification.options.actions?.[0].callback(new MouseEvent('click'));
    expect(shown).toEqual(['panel', ID]);
  });

  it('takes the notification back when the question is answered elsewhere', async () => {
    server.announce(ID, 't1');
    await settled();
    expect(Notification.manager.count).toBe(1);
    state = 'running';
    server.announce(ID, 't1');
    await settled();
    expect(Notification.manager.count).toBe(0);
  });

  it('leaves conversations of the user alone', async () => {
    server.announce('talk', 't1');
    await settled();
    expect(server.requests).toEqual([]);
  });
});
