import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { IPlace, OpenNotebooks } from '../../src/bridge/openNotebooks';
import { Assistant } from '../../src/chat/assistant';
import type { ConversationEvent } from '../../src/chat/conversationEvents';
import { Instructions } from '../../src/chat/instructions';
import { Listing } from '../../src/chat/listing';
import { Models } from '../../src/chat/models';
import { Tools } from '../../src/chat/tools';
import { Draft } from '../../src/composer/draft';
import { goldenStream } from '../golden';
import { RenamingPage } from '../renames';
import { LiveStream, Server, json } from '../server';

const CHUNKS = goldenStream('edit_and_run');

/** A page on which no notebook is open at first. */
class Notebooks {
  place: IPlace | null = null;
  readonly moved = new Signal<this, void>(this);
}

describe('The assistant', () => {
  let server: Server;
  let assistant: Assistant;
  let page: RenamingPage;
  let notebooks: Notebooks;

  beforeEach(() => {
    sessionStorage.clear();
    server = new Server();
    server.routes['GET turns/t_4/changes'] = () => json([{ cell_id: 'b2' }]);
    server.routes['GET instructions'] = () => json({ instructions: [] });
    const { client } = server;
    page = new RenamingPage();
    notebooks = new Notebooks();
    assistant = new Assistant(
      client,
      'page-1',
      server.announcements,
      null,
      new Draft(notebooks as unknown as OpenNotebooks, page.renames),
      new Models(client),
      new Instructions(client),
      new Listing(client),
      new Tools(client, nullTranslator.load('')),
      page.renames
    );
  });

  afterEach(() => assistant.state.conversation.dispose());

  it('sends the chosen effort with each question, and none where it is left to the model', async () => {
    const bodies: { effort?: string }[] = [];
    server.routes['POST chat'] = body => {
      bodies.push(body as { effort?: string });
      const stream = new LiveStream();
      stream.tell(...CHUNKS);
      stream.end();
      return stream.response;
    };
    assistant.choose({ effort: 'high' });
    await assistant.ask('Think.');
    assistant.choose({ effort: null });
    await assistant.ask('And now?');
    expect(bodies.map(({ effort }) => effort)).toEqual(['high', undefined]);
  });

  it('is in no freer mode than the administrator allows, whatever was chosen before', async () => {
    server.routes['GET status'] = () => json({ policy: { max_mode: 'ask' } });
    server.routes['GET models'] = () => json({ default: 'demo:tour', providers: [] });
    server.routes['GET conversations'] = () => json({ conversations: [] });
    assistant.setMode('auto');
    expect(assistant.choices.mode).toBe('auto');
    await assistant.restore();
    await new Promise<void>(resolve => {
      const look = (): void => void (assistant.state.freestMode === 'ask' && resolve());
      assistant.changed.connect(look);
      look();
    });
    expect(assistant.choices.mode).toBe('ask');
    assistant.setMode('read');
    expect(assistant.choices.mode).toBe('read');
  });

  it('sends the fallback model with each question: one, nobody, or the choice of the server', async () => {
    const bodies: { fallback_model?: string }[] = [];
    server.routes['POST chat'] = body => {
      bodies.push(body as { fallback_model?: string });
      const stream = new LiveStream();
      stream.tell(...CHUNKS);
      stream.end();
      return stream.response;
    };
    for (const fallback of ['anthropic:claude-opus-5-5', '', null]) {
      assistant.choose({ fallback });
      await assistant.ask('Go.');
    }
    expect(bodies.map(({ fallback_model }) => fallback_model)).toEqual([
      'anthropic:claude-opus-5-5',
      '',
      undefined
    ]);
  });

  it('asks the next question when a turn ends, whose changes are read all the same', async () => {
    const [first, second] = [new LiveStream(), new LiveStream()];
    const streams = [first.response, second.response];
    server.routes['POST chat'] = () => streams.shift()!;
    const { conversation } = assistant.state;
    const progress = new Set<string>();
    const done = assistant.ask('Set x');
    await assistant.ask('And y');
    expect(assistant.queue.state.waiting).toHaveLength(1);
    first.tell(...CHUNKS);
    first.end();
    await done;
    conversation.changed.connect(({ state }) => void progress.add(state.progress));
    expect(conversation.state.progress).toBe('running');
    expect(conversation.state.changes).toEqual({ t_4: [{ cell_id: 'b2' }] });
    expect(assistant.queue.state.waiting).toEqual([]);
    const ended = new Promise<void>(resolve =>
      conversation.changed.connect(({ busy }) => busy || resolve())
    );
    second.tell(...CHUNKS);
    second.end();
    await ended;
    expect([...progress]).toEqual(['running', 'done']);
  });

  it('lets everybody hear of the end of a turn before it asks the next question', async () => {
    const [first, second] = [new LiveStream(), new LiveStream()];
    const streams = [first.response, second.response];
    server.routes['POST chat'] = () => streams.shift()!;
    const heard: [ConversationEvent, number][] = [];
    assistant.happened.connect((_, event) => {
      if (event !== 'updated' && event !== 'changesArrived') {
        heard.push([event, assistant.state.conversation.state.messages.length]);
      }
    });
    const done = assistant.ask('Set x');
    await assistant.ask('And y');
    first.tell(...CHUNKS);
    first.end();
    await done;
    expect(heard).toEqual([
      ['turnStarted', 1],
      ['sent', 1], // not before it is in the conversation, where the line at a cell looks for it
      ['outcomeKnown', 2],
      ['turnEnded', 2],
      ['turnStarted', 3]
    ]);
    second.end();
  });

  it('tells when another conversation is in front', () => {
    const heard: ConversationEvent[] = [];
    assistant.happened.connect((_, event) => void heard.push(event));
    assistant.newConversation();
    expect(heard).toEqual(['opened']);
  });

  it('asks about the same notebook as before when it is renamed and another one gets its name', async () => {
    const bodies: { notebook?: string; context?: object[] }[] = [];
    const streams = [new LiveStream(), new LiveStream(), new LiveStream()];
    server.routes['POST chat'] = body => streams[bodies.push(body as object) - 1].response;
    const end = (turn: number): void => {
      streams[turn].tell(...CHUNKS);
      streams[turn].end();
    };
    const about = (notebook: string): object => ({
      notebook,
      context: [{ type: 'cell', notebook, cell_id: 'c0' }]
    });
    const question = about('Untitled.ipynb') as { notebook: string };
    const first = assistant.ask('First', question);
    await assistant.ask('Queued', question);
    page.renameFile('Untitled.ipynb', 'analysis.ipynb');
    expect(assistant.state.conversation.state.messages[0].metadata).toEqual(
      about('analysis.ipynb')
    );
    end(0);
    await first;
    const { conversation } = assistant.state;
    const ended = new Promise<void>(resolve =>
      conversation.changed.connect(({ busy }) => busy || resolve())
    );
    end(1);
    await ended;
    expect(bodies[1]).toMatchObject(about('analysis.ipynb'));
    page.renameOpen('analysis.ipynb', 'report.ipynb');
    const again = conversation.retry(assistant.choices);
    end(2);
    await again;
    expect(bodies[2]).toMatchObject(about('report.ipynb'));
  });

  it('keeps what waits in other conversations about its notebook', async () => {
    const stream = new LiveStream();
    server.routes['POST chat'] = () => stream.response;
    const { conversation } = assistant.state;
    void assistant.ask('First');
    await assistant.ask('Queued', { notebook: 'Untitled.ipynb' });
    assistant.newConversation();
    page.renameFile('Untitled.ipynb', 'analysis.ipynb');
    assistant.queue.open(conversation);
    expect(assistant.queue.state.waiting.map(({ notebook }) => notebook)).toEqual([
      'analysis.ipynb'
    ]);
    stream.end();
  });

  it('takes the mode of a notebook along, and gives it to no other that gets the old name', () => {
    const open = (notebook: string): void => {
      notebooks.place = { notebook, attachments: [] };
      notebooks.moved.emit();
    };
    open('Untitled.ipynb');
    assistant.setMode('auto');
    page.renameFile('Untitled.ipynb', 'analysis.ipynb');
    expect(assistant.state.mode).toBe('auto');
    open('Untitled.ipynb');
    expect(assistant.state.mode).toBe('ask');
    open('analysis.ipynb');
    expect(assistant.state.mode).toBe('auto');
  });

  describe('with a question that waits', () => {
    const asks = (): number => server.to('POST chat').length;
    const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 50));
    const stored = (state: string): Response => json({ title: null, messages: [], state });

    beforeEach(() => {
      const waiting = [{ id: 'q', text: 'Queued' }];
      sessionStorage.setItem('jupyter-agent:queue:b', JSON.stringify(waiting));
      server.routes['POST chat'] = () => new LiveStream().response;
      server.routes['GET conversations/a'] = () => stored('done');
    });

    it('does not send it because another conversation, in front before, has been read', async () => {
      let answer!: (response: Response) => void;
      server.routes['GET conversations/b'] = () => new Promise(resolve => (answer = resolve));
      assistant.show('a');
      assistant.show('b');
      await settled();
      expect(asks()).toBe(0);
      answer(stored('stopped'));
      await settled();
      expect(asks()).toBe(0);
      expect(assistant.queue.state.held).toBe(true);
    });

    it('holds it if the conversation cannot be read', async () => {
      server.routes['GET conversations/b'] = () => json({ message: 'Later.' }, 500);
      assistant.show('b');
      await settled();
      expect(asks()).toBe(0);
      expect(assistant.queue.state.held).toBe(true);
    });

    it.each([
      ['stopped', 0],
      ['failed', 0],
      ['done', 1]
    ])('asks the server how a turn ended if its stream does not say: %s', async (state, sent) => {
      const stream = new LiveStream();
      let now = 'running';
      server.routes['GET conversations/b'] = () => stored(now);
      server.routes['GET chat/b/stream'] = () => stream.response;
      assistant.show('b');
      await settled();
      stream.tell(...CHUNKS.slice(0, 12));
      now = state;
      stream.end();
      await settled();
      expect(asks()).toBe(sent);
      expect(assistant.queue.state.held).toBe(!sent);
    });
  });
});
