import { Conversation } from '../../src/chat/conversation';
import type { ConversationEvent } from '../../src/chat/conversationEvents';
import { goldenStream } from '../golden';
import { Server, events, json } from '../server';

const CHUNKS = goldenStream('edit_and_run');

describe('What happens in a conversation', () => {
  let server: Server;
  let conversation: Conversation;
  let happened: ConversationEvent[];

  beforeEach(() => {
    server = new Server();
    server.routes['GET turns/t_4/changes'] = () => json([]);
    conversation = new Conversation(server.client, 'page-1', server.announcements, 'c_1');
    happened = [];
    conversation.happened.connect((_, event) => {
      if (event !== 'updated') {
        happened.push(event);
      }
    });
  });

  afterEach(() => conversation.dispose());

  it('is told once, in order', async () => {
    server.routes['POST chat'] = () => events(CHUNKS);
    await conversation.send({ text: 'Set x' });
    expect(happened).toEqual([
      'turnStarted',
      'changesArrived',
      'changesArrived',
      'outcomeKnown',
      'turnEnded'
    ]);
  });

  it('tells of each further question, and of none that was answered', async () => {
    server.routes['POST chat'] = () => events(goldenStream('approval'));
    await conversation.send({ text: 'Run it' });
    expect(happened.filter(event => event === 'asked')).toHaveLength(2);
  });

  it('includes the outcome of a turn that ended while no page was open, not its end', async () => {
    server.routes['GET conversations/c_1'] = () =>
      json({ title: null, messages: [], state: 'failed' });
    await conversation.load();
    expect(happened).toEqual(['outcomeKnown']);
  });

  it('includes the end of a turn of somebody else that was over before it was seen', async () => {
    const turn = (id: string): object => ({
      id: `m_${id}`,
      role: 'assistant',
      parts: [],
      metadata: { turnId: id }
    });
    const messages = [turn('t_1')];
    server.routes['GET conversations/c_1'] = () => json({ title: null, messages, state: 'done' });
    await conversation.load();
    happened = [];
    messages.push(turn('t_2'));
    await conversation.load();
    await conversation.load();
    expect(happened).toEqual(['outcomeKnown', 'turnEnded']);
  });

  it('ends nothing again when the state changes after the end', async () => {
    server.routes['POST chat'] = () => events(CHUNKS);
    server.routes['PATCH conversations/c_1'] = () => json({});
    await conversation.send({ text: 'Set x' });
    happened = [];
    await conversation.rename('Sales report');
    await conversation.refreshChanges('t_4');
    expect(happened).toEqual([]);
  });
});
