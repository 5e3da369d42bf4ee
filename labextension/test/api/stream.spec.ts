import { ServerConnection } from '@jupyterlab/services';
import type { AgentChunk } from '../../src/api/protocol';
import { chunks, frames } from '../../src/api/stream';

const BODY =
  ': heartbeat\n\nid: 1\ndata: {"type":"start-step"}\n\nid: 2\r\ndata: {"type":"abort","reason":"é"}\r\n\r\ndata: [DONE]\n\n';

function body(...pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      pieces.forEach(piece => controller.enqueue(piece));
      controller.close();
    }
  });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const result: T[] = [];
  for await (const item of items) {
    result.push(item);
  }
  return result;
}

describe('frames', () => {
  it('are the same wherever the network cuts them', async () => {
    const bytes = new TextEncoder().encode(BODY);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const found = await all(frames(body(bytes.slice(0, cut), bytes.slice(cut))));
      expect(found).toEqual([
        { id: '1', data: '{"type":"start-step"}' },
        { id: '2', data: '{"type":"abort","reason":"é"}' },
        { id: '', data: '[DONE]' }
      ]);
    }
  });
});

describe('chunks', () => {
  const bytes = new TextEncoder().encode(BODY);

  it('goes on behind the last frame that came, however often the connection breaks', async () => {
    const resumed: string[] = [];
    const connected: boolean[] = [];
    const rest = [BODY.slice(BODY.indexOf('id: 2')), 'data: [DONE]\n\n'];
    const stream = chunks({
      connect: () => Promise.resolve(new Response(body(bytes.slice(0, 50)))),
      resume: after => {
        resumed.push(after);
        const text = rest[resumed.length - 1].slice(0, resumed.length === 1 ? 48 : undefined);
        return Promise.resolve(new Response(text));
      },
      signal: new AbortController().signal,
      onConnected: now => connected.push(now)
    });
    const types = (await all(stream)).map((chunk: AgentChunk) => chunk.type);
    expect(types).toEqual(['start-step', 'abort']);
    expect(resumed).toEqual(['1', '2']);
    expect(connected).toEqual([true, true, true]);
  });

  it.each([
    ['falls silent', 45_000, undefined],
    ['is known to be gone', 0, 'offline']
  ])('takes another connection when one %s', async (_, silence, event) => {
    jest.useFakeTimers();
    const resumed: string[] = [];
    const quiet = new ReadableStream({
      start: controller => controller.enqueue(bytes.slice(0, 50))
    });
    const stream = chunks({
      connect: () => Promise.resolve(new Response(quiet)),
      resume: after => {
        resumed.push(after);
        return Promise.resolve(new Response(BODY.slice(BODY.indexOf('id: 2'))));
      },
      signal: new AbortController().signal,
      onConnected: () => undefined
    });
    const following = all(stream);
    await jest.advanceTimersByTimeAsync(Math.max(silence - 1, 0));
    expect(resumed).toEqual([]);
    if (event) {
      window.dispatchEvent(new Event(event));
    }
    await jest.advanceTimersByTimeAsync(300);
    expect(resumed).toEqual(['1']);
    expect((await following).map(({ type }) => type)).toEqual(['start-step', 'abort']);
    jest.useRealTimers();
  });

  it('is not called silent while only heartbeats come', async () => {
    jest.useFakeTimers();
    const beats = new ReadableStream({
      async start(controller) {
        for (let beat = 0; beat < 8; beat++) {
          controller.enqueue(new TextEncoder().encode(': still here\n\n'));
          await new Promise(resolve => setTimeout(resolve, 15_000));
        }
        controller.enqueue(bytes);
      }
    });
    const stream = chunks({
      connect: () => Promise.resolve(new Response(beats)),
      resume: () => Promise.reject(new Error('it was there')),
      signal: new AbortController().signal,
      onConnected: () => undefined
    });
    const following = all(stream);
    await jest.advanceTimersByTimeAsync(121_000);
    expect(await following).toHaveLength(2);
    jest.useRealTimers();
  });

  it('is asked for at once when the network is back', async () => {
    const asked: string[] = [];
    const stream = chunks({
      connect: () => {
        asked.push('asked');
        return asked.length < 5
          ? Promise.reject(new ServerConnection.NetworkError(new TypeError('Failed to fetch')))
          : Promise.resolve(new Response(BODY));
      },
      resume: () => Promise.reject(new Error('nothing came yet')),
      signal: new AbortController().signal,
      onConnected: connected => {
        if (!connected) {
          setTimeout(() => window.dispatchEvent(new Event('online')));
        }
      }
    });
    const begun = Date.now();
    await all(stream);
    expect(Date.now() - begun).toBeLessThan(250);
  });

  it('says so where no turn runs', async () => {
    const stream = chunks({
      connect: () => Promise.resolve(new Response(null, { status: 204 })),
      resume: () => Promise.reject(new Error('nothing to go on with')),
      signal: new AbortController().signal,
      onConnected: () => undefined
    });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });
});
