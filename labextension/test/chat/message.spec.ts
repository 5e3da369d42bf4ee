import * as ai6 from 'ai';
import * as ai7 from 'ai7';
import type { AgentChunk, AgentMessage, AgentPart } from '../../src/api/protocol';
import {
  advance,
  withAnswers,
  emptyAnswer,
  limitOf,
  pendingApprovals,
  retryOf
} from '../../src/chat/message';
import { goldenStream, goldenStreams } from '../golden';

const replay = (chunks: AgentChunk[]): AgentMessage => chunks.reduce(advance, emptyAnswer(''));

/** Absent and undefined are equal, and the guess for a half-written input is not part of any contract. */
/** Without facts that a stock client knows from its own user: our stream reports their answers in a notice. */
function comparable(message: AgentMessage): unknown {
  return JSON.parse(JSON.stringify(message), (key, value: unknown) =>
    key === 'rawInput' || key === 'approved' ? undefined : value
  );
}

/** The SDK's own reader, of each version that there is. */
const READERS = {
  6: (stream: ReadableStream<AgentChunk>): AsyncIterable<AgentMessage> =>
    ai6.readUIMessageStream<AgentMessage>({ stream }),
  7: (stream: ReadableStream<AgentChunk>): AsyncIterable<AgentMessage> =>
    ai7.readUIMessageStream<AgentMessage>({ stream })
};

async function asTheSDKReadsIt(
  version: keyof typeof READERS,
  chunks: AgentChunk[]
): Promise<AgentMessage> {
  const stream = new ReadableStream<AgentChunk>({
    start(controller) {
      chunks.forEach(chunk => controller.enqueue(chunk));
      controller.close();
    }
  });
  let last = emptyAnswer('');
  const read = READERS[version](stream);
  for await (const message of read) {
    last = message;
  }
  return last;
}

describe('limitOf', () => {
  it('knows the limits of answers that an earlier version stored', () => {
    const answer = emptyAnswer('m', { turnId: 't', budgetReached: true });
    expect(limitOf(answer)).toEqual({ turnId: 't', limit: 'tokens' });
    expect(limitOf(emptyAnswer('m', { turnId: 't', stepLimitReached: true }))?.limit).toBe('steps');
    expect(limitOf(emptyAnswer('m', { turnId: 't', stepLimitReached: false }))).toBeNull();
  });
});

describe('retryOf', () => {
  const retrying: AgentPart = { type: 'data-notice', data: { kind: 'retrying', text: '' } };

  it('is what the turn waits for until something comes', () => {
    const waiting = { ...emptyAnswer('m'), parts: [retrying] };
    expect(retryOf(waiting)).toBe(retrying.data);
    expect(retryOf(advance(waiting, { type: 'start-step' }))).toBe(retrying.data);
    expect(retryOf(advance(waiting, { type: 'text-start', id: '1' }))).toBeNull();
    expect(retryOf(emptyAnswer('m'))).toBeNull();
  });
});

describe('advance', () => {
  describe.each([6, 7] as const)('as version %i of the AI SDK', version => {
    it.each(goldenStreams())('builds the message: %s', async (_, chunks) => {
      const theirs = await asTheSDKReadsIt(version, chunks);
      expect(comparable(replay(chunks))).toEqual(comparable(theirs));
    });
  });

  it.each(goldenStreams())('builds the same from a replay on top of anything: %s', (_, chunks) => {
    for (let seen = 0; seen < chunks.length; seen++) {
      const before = replay(chunks.slice(0, seen));
      expect(chunks.reduce(advance, before)).toEqual(replay(chunks));
    }
  });

  it('leaves alone what a chunk does not touch', () => {
    const chunks = goldenStream('edit_and_run');
    let message = emptyAnswer('');
    for (const chunk of chunks.slice(0, -1)) {
      const next = advance(message, chunk);
      const changed = next.parts.filter((part, index) => part !== message.parts[index]);
      expect(changed.length).toBeLessThanOrEqual(1);
      message = next;
    }
  });

  it('shows the text of a cell while it is being written', () => {
    const chunks = goldenStream('edit_and_run');
    const sources = chunks.map((_, end) => {
      const part = replay(chunks.slice(0, end)).parts.find(other => other.type === 'dynamic-tool');
      const input = part?.type === 'dynamic-tool' ? part.input : undefined;
      return (input as { new_string?: string } | undefined)?.new_string;
    });
    const distinct = [...new Set(sources.filter(source => source !== undefined))];
    expect(distinct.length).toBeGreaterThan(2);
    expect(distinct.every(source => 'x = "ü \\\\ 2"'.startsWith(source))).toBe(true);
  });
});

describe('pendingApprovals', () => {
  const chunks = goldenStream('approval');
  const asked = chunks.slice(0, chunks.findLastIndex(({ type }) => type.includes('approval')) + 1);

  it('lists the questions until they are answered', () => {
    const message = replay(asked);
    expect(pendingApprovals(message).map(({ id }) => id)).toEqual(['a_1', 'a_2']);
    const one = withAnswers(message, [{ id: 'a_1', approved: true }]);
    expect(pendingApprovals(one).map(({ id }) => id)).toEqual(['a_2']);
    const approvals = ['a_1', 'a_2'].map(id => ({ id, approved: true }));
    const told = advance(message, {
      type: 'data-notice',
      data: { kind: 'answered', text: '', approvals }
    });
    expect(pendingApprovals(told)).toEqual([]); // in another tab
    expect(pendingApprovals(replay(chunks))).toEqual([]);
  });

  it('keeps the exact code and diff', () => {
    const [run, deletion] = pendingApprovals(replay(asked));
    expect(run.code).toBe('x = 1');
    expect(deletion.diff).toContain('-y = 2');
  });
});
