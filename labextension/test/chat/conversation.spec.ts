import type { AgentMessage } from '../../src/api/protocol';
import { Conversation } from '../../src/chat/conversation';
import type { IConversationState } from '../../src/chat/conversationState';
import { advance, emptyAnswer, limitOf, retryOf } from '../../src/chat/message';
import { goldenStream } from '../golden';
import { LiveStream, Server, events, json } from '../server';

const CHUNKS = goldenStream('edit_and_run');
const ANSWER = CHUNKS.reduce(advance, emptyAnswer(''));
const TIMED = {
  ...ANSWER,
  metadata: { ...ANSWER.metadata, seconds: expect.any(Number) as number }
};
const TITLE = 'Sales report';
const QUESTION: AgentMessage = { id: 'q', role: 'user', parts: [{ type: 'text', text: 'Set x' }] };

describe('Conversation', () => {
  let server: Server;
  let conversation: Conversation;

  beforeEach(() => {
    server = new Server();
    server.routes['GET turns/t_4/changes'] = () => json([]);
    conversation = new Conversation(server.client, 'page-1', server.announcements, 'c_1');
  });

  afterEach(() => conversation.dispose());

  function until(condition: (state: IConversationState) => boolean): Promise<void> {
    return new Promise(resolve => {
      const look = (): void => {
        if (condition(conversation.state)) {
          conversation.changed.disconnect(look);
          resolve();
        }
      };
      conversation.changed.connect(look);
      look();
    });
  }

  it('asks, and shows the answer as it comes', async () => {
    const stream = new LiveStream();
    server.routes['POST chat'] = () => stream.response;
    const asked = conversation.send({ text: 'Set x', notebook: 'sales.ipynb', mode: 'edit' });
    expect(conversation.busy).toBe(true);
    stream.tell(...CHUNKS.slice(0, 4));
    await until(({ messages }) => messages[1]?.parts.length === 2);
    stream.tell(...CHUNKS.slice(4));
    stream.end();
    await asked;
    expect(conversation.state.messages[1]).toEqual(TIMED);
    expect(conversation.state.progress).toBe('done');
    expect(server.to('POST chat')[0].body).toMatchObject({
      id: 'c_1',
      client: 'page-1',
      notebook: 'sales.ipynb',
      mode: 'edit',
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'Set x' }] }]
    });
  });

  it('stops a turn that the server has not begun as soon as it has', async () => {
    const stream = new LiveStream();
    server.routes['POST chat'] = () => stream.response;
    server.routes['POST chat/c_1/stop'] = () => json({});
    const asked = conversation.send({ text: 'Set x' });
    await conversation.stop();
    expect(server.to('POST chat/c_1/stop')).toHaveLength(0);
    stream.tell(CHUNKS[0], { type: 'abort' });
    stream.end();
    await asked;
    expect(server.to('POST chat/c_1/stop')).toHaveLength(1);
    expect(conversation.state).toMatchObject({ progress: 'stopped', failure: null });
  });

  it('finds its turn again when the connection breaks', async () => {
    server.routes['POST chat'] = () => events(CHUNKS.slice(0, 9), 0, false);
    server.routes['GET chat/c_1/stream'] = () => events(CHUNKS, 9);
    await conversation.send({ text: 'Set x' });
    expect(conversation.state.messages[1]).toEqual(TIMED);
    expect(server.to('GET chat/c_1/stream')[0].headers.get('Last-Event-ID')).toBe('9');
    expect(server.to('POST chat')).toHaveLength(1);
  });

  it('repeats a request that no server took, as the same request', async () => {
    let outages = 1;
    server.routes['POST chat'] = () =>
      outages-- ? json({ message: 'Bad gateway' }, 502) : events(CHUNKS);
    await conversation.send({ text: 'Set x' });
    const [first, second] = server.to('POST chat');
    expect(second.headers.get('Idempotency-Key')).toBe(first.headers.get('Idempotency-Key'));
    expect(conversation.state.progress).toBe('done');
  });

  it('says why it was refused, and can try again with the same question', async () => {
    server.routes['POST chat'] = () => json({ message: 'No key.', reason: 'authentication' }, 401);
    await conversation.send({ text: 'Set x', model: 'anthropic:x' });
    expect(conversation.state.failure).toEqual({ message: 'No key.', reason: 'authentication' });
    expect(conversation.state.messages).toHaveLength(1);
    server.routes['POST chat'] = () => events(CHUNKS);
    await conversation.retry({});
    expect(conversation.state.failure).toBeNull();
    expect(conversation.state.messages).toHaveLength(2);
    expect(server.to('POST chat')[1].body).toEqual(server.to('POST chat')[0].body);
  });

  it('says that a question cannot be stored, and how to fix it', async () => {
    const full = { message: 'The disk is full.', reason: 'store_unavailable' };
    server.routes['POST chat'] = () => json(full, 503);
    await conversation.send({ text: 'Set x' });
    expect(conversation.state).toMatchObject({ failure: full, connected: true });
    expect(server.to('POST chat')).toHaveLength(1);
  });

  it('continues an answer that a limit ended as that turn was', async () => {
    server.routes['POST chat'] = () => events(goldenStream('server_limit'));
    await conversation.send({ text: 'Set x', notebook: 'sales.ipynb', mode: 'auto' });
    const ended = limitOf(conversation.state.messages[1]);
    expect(ended).toEqual({
      turnId: conversation.state.messages[1].metadata?.turnId,
      limit: 'steps'
    });
    server.routes['POST chat'] = () => events(CHUNKS);
    await conversation.send({ text: 'Continue.', mode: 'ask', continues: ended?.turnId });
    expect(server.to('POST chat')[1].body).toEqual({
      id: 'c_1',
      client: 'page-1',
      continues: ended?.turnId,
      mode: 'ask',
      messages: [expect.objectContaining({ parts: [{ type: 'text', text: 'Continue.' }] })]
    });
    expect(limitOf(conversation.state.messages[3])).toBeNull();
  });

  it('repeats a failed request to the model sooner, and shows who waits no longer', async () => {
    const wait = goldenStream('server_notice');
    const begun = wait.findIndex(({ type }) => type === 'data-notice') + 1;
    const stream = new LiveStream();
    server.routes['POST chat'] = () => stream.response;
    server.routes['POST chat/c_1/retry'] = () => json({ retried: true });
    const asked = conversation.send({ text: 'Set x' });
    stream.tell(...wait.slice(0, begun));
    const waits = (): boolean => retryOf(conversation.state.messages.at(-1)!) !== null;
    await until(({ messages }) => messages.length === 2 && waits());
    await conversation.retryNow();
    expect(server.to('POST chat/c_1/retry')).toHaveLength(1);
    stream.tell({ type: 'data-notice', data: { kind: 'retry-now', text: '' } });
    await until(() => !waits());
    stream.tell(...wait.slice(begun));
    stream.end();
    await asked;
    expect(conversation.state.progress).toBe('done');
  });

  it('asks a question that was answered badly for another answer', async () => {
    const failing = goldenStream('retry');
    server.routes['POST chat'] = () => events(failing);
    await conversation.send({ text: 'Look' });
    expect(conversation.state.progress).toBe('failed');
    expect(conversation.state.failure?.message).toContain('overloaded');
    server.routes['POST chat'] = () => events(CHUNKS);
    await conversation.retry({ mode: 'ask' });
    expect(server.to('POST chat')[1].body).toMatchObject({ trigger: 'regenerate-message' });
    expect(conversation.state.messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  });

  it('goes on with a running turn after a reload', async () => {
    const soFar = CHUNKS.slice(0, 12).reduce(advance, emptyAnswer(''));
    server.routes['GET conversations/c_1'] = () =>
      json({ title: TITLE, messages: [QUESTION, soFar], state: 'running' });
    server.routes['GET chat/c_1/stream'] = () => events(CHUNKS);
    await conversation.load();
    expect(conversation.state.messages).toEqual([QUESTION, ANSWER]);
    expect(conversation.state.title).toBe(TITLE);
    expect(conversation.state.progress).toBe('done');
  });

  it('is empty where the server does not know it', async () => {
    await conversation.load();
    expect(conversation.state).toMatchObject({ messages: [], progress: 'idle', failure: null });
  });

  it('asks each question once, and sends the answer', async () => {
    const chunks = goldenStream('approval');
    const asked = chunks.findLastIndex(({ type }) => type === 'tool-approval-request') + 1;
    const stream = new LiveStream();
    server.routes['POST chat'] = () => stream.response;
    server.routes['POST chat/c_1/approvals'] = () => json({ turn_id: 't_4', state: 'running' });
    const turn = conversation.send({ text: 'Run it' });
    stream.tell(...chunks.slice(0, asked));
    await until(() => conversation.approvals.length === 2);
    await conversation.answer([{ id: 'a_1', approved: true, remember: 'conversation' }]);
    expect(conversation.approvals.map(({ id }) => id)).toEqual(['a_2']);
    expect(server.to('POST chat/c_1/approvals')[0].body).toEqual({
      approvals: [{ id: 'a_1', approved: true, remember: 'conversation' }]
    });
    stream.tell(...chunks.slice(asked));
    stream.end();
    await turn;
    expect(conversation.approvals).toEqual([]);
  });

  it('takes back a turn and shows what became of it', async () => {
    server.routes['POST chat'] = () => events(CHUNKS);
    await conversation.send({ text: 'Set x' });
    const undone = [{ cell_id: 'b2', undone: true }];
    server.routes['POST turns/t_4/undo'] = () => json({ undone, conflicts: [], remarks: [] });
    server.routes['GET turns/t_4/changes'] = () => json(undone);
    expect(await conversation.undo('t_4')).toEqual({ undone, conflicts: [], remarks: [] });
    expect(conversation.state.changes.t_4).toEqual(undone);
    expect(conversation.state.undone.t_4).toEqual({ undone, conflicts: [], remarks: [] });
  });

  it('follows a turn that was begun elsewhere, once however often it is told of', async () => {
    server.routes['GET conversations/c_1'] = () =>
      json({ title: null, messages: [QUESTION], state: 'running' });
    server.routes['GET chat/c_1/stream'] = () => events(CHUNKS);
    server.announce('c_2', 't_4');
    server.announce('c_1', 't_4');
    server.announce('c_1', 't_4');
    await until(({ progress }) => progress === 'done');
    expect(conversation.state.messages).toEqual([QUESTION, ANSWER]);
    expect(server.to('GET conversations/c_1')).toHaveLength(2);
    expect(server.to('GET chat/c_1/stream')).toHaveLength(1);
  });

  it('shows what was kept or taken back elsewhere, and reads nothing else again', async () => {
    server.routes['POST chat'] = () => events(CHUNKS);
    await conversation.send({ text: 'Set x' });
    server.routes['GET turns/t_4/changes'] = () => json([{ cell_id: 'b2', reviewed: true }]);
    server.announce('c_1', 't_4');
    await until(({ changes }) => changes.t_4?.length === 1);
    expect(server.to('GET conversations/c_1')).toHaveLength(0);
  });

  it('is called what it is called elsewhere', async () => {
    server.routes['GET conversations/c_1'] = () =>
      json({ title: TITLE, messages: [], state: 'done' });
    server.announce('c_1', null);
    await until(({ title }) => title === TITLE);
  });
});
