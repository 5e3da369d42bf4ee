/**
 * A stock client of the AI SDK, as in a third-party application: `node stock.mjs PACKAGE API TOKEN NOTEBOOK`.
 * Drives turns over POST chat; prints the outcome of each on standard output, one JSON per line, and reads a line from
 * standard input when the test has to act first.
 */
import { createInterface } from 'node:readline';

const [name, api, token, notebook] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } =
  await import(name);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** The state of a chat outside of any framework. */
class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => this._set([...this.messages, message]);
  popMessage = () => this._set(this.messages.slice(0, -1));
  replaceMessage = (index, message) => this._set(this.messages.with(index, message));
  snapshot = value => structuredClone(value);

  _set(messages) {
    this.messages = messages;
    this.onChanged?.();
  }
}

class Chat extends AbstractChat {
  constructor(id, body, messages = []) {
    const state = new State();
    state.messages = messages;
    const headers = { Authorization: `token ${token}` };
    super({
      id,
      state,
      transport: new DefaultChatTransport({
        api: `${api}/chat`,
        headers,
        body: { notebook, on_approval: 'end', ...body }
      }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      onError: () => this.whenFailed?.(),
      onFinish: ({ isAbort, isError }) => (this.ended = { isAbort, isError })
    });
    this.watched = state;
  }

  /** Resolves when `holds` is true for the chat. */
  until(holds) {
    return new Promise(resolve => {
      const look = () => this.lastMessage && holds(this.lastMessage) && resolve();
      this.watched.onChanged = look;
      look();
    });
  }
}

function tell(what, chat) {
  const { parts, metadata } = chat.lastMessage;
  const { status, ended, error } = chat;
  const told = { what, status, ended, error: error?.message, parts, metadata };
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

const said = text => message =>
  message.parts.some(part => part.type === 'text' && part.text.startsWith(text));

const plain = new Chat('plain', { mode: 'auto' });
await plain.sendMessage({ text: 'Look around.' });
tell('plain', plain);

const careful = new Chat('careful', { mode: 'ask' });
await careful.sendMessage({ text: 'Set x.' });
tell('asked', careful);
const old = new Chat('careful', { mode: 'ask' }, structuredClone(careful.messages));
const asking = careful.lastMessage.parts.find(part => part.state === 'approval-requested');
await careful.addToolApprovalResponse({ id: asking.approval.id, approved: true });
await careful.until(said('It is set.'));
tell('approved', careful);
const failed = new Promise(resolve => (old.whenFailed = resolve));
await old.addToolApprovalResponse({ id: asking.approval.id, approved: true });
await failed;
tell('late', old);

const left = new Chat('left', { mode: 'auto' });
const sent = left.sendMessage({ text: 'Take your time.' });
await left.until(said('A beginning'));
await left.stop();
await sent;
tell('left', left);

const back = new Chat('left', { mode: 'auto' }, left.messages.slice(0, 1));
const resumed = back.resumeStream();
await back.until(said('A beginning'));
tell('resumed', back);
await lines.next();
await resumed;
tell('finished', back);

const stopped = new Chat('stopped', { mode: 'auto' });
const going = stopped.sendMessage({ text: 'Never end.' });
await stopped.until(said('On and'));
tell('going', stopped);
await lines.next();
await going;
tell('stopped', stopped);
process.exit(0);
