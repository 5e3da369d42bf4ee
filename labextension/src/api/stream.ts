import { ServerConnection } from '@jupyterlab/services';
import { RequestError } from './failure';
import type { AgentChunk } from './protocol';

const LONGEST_PAUSE = 10_000;
/** Milliseconds of silence after which a connection counts as lost: the server writes something every 15 s. */
const LONGEST_SILENCE = 45_000;

/** The server cannot store a question: its disk is full, or the store is locked. */
const NO_STORE = 'store_unavailable';

/** How to connect to a stream. */
export interface IConnections {
  /** Make the first connection, and retry until one has delivered something. */
  connect: () => Promise<Response>;
  /** Reconnect after a frame. */
  resume: (after: string) => Promise<Response>;
  /** Aborts the stream. */
  signal: AbortSignal;
  /** Called when the connection is lost or restored. */
  onConnected: (connected: boolean) => void;
}

/**
 * The chunks of a turn until its end, through as many connections as it takes. The last ones may be missing if the
 * turn ended while there was no connection. Raises RequestError if the server refuses.
 */
export async function* chunks(options: IConnections): AsyncGenerator<AgentChunk, void> {
  const { connect, resume, signal, onConnected } = options;
  let seen = '';
  for (let attempt = 0; !signal.aborted; attempt++) {
    const response = await (seen ? unlessOutage(resume(seen)) : unlessOutage(connect(), NO_STORE));
    onConnected(response !== null);
    if (response?.status === 204) {
      return;
    }
    for await (const { id, data } of frames(response?.body)) {
      if (data === '[DONE]') {
        return;
      }
      seen = id || seen;
      attempt = 0;
      yield JSON.parse(data) as AgentChunk;
    }
    await pause(Math.min(250 * 2 ** attempt, LONGEST_PAUSE), signal);
  }
}

/** One frame of a server-sent event stream. */
export interface IFrame {
  /** Empty if the frame has no id, like the last one. */
  id: string;
  data: string;
}

/**
 * The frames of an event stream, as they arrive; comments (heartbeats) are left out.
 *
 * Ends when the body ends, breaks or falls silent, even in the middle of a frame: the caller has to check whether
 * the stream is complete.
 */
export async function* frames(
  body: ReadableStream<Uint8Array> | null | undefined
): AsyncGenerator<IFrame> {
  if (!body) {
    return;
  }
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const value = await nextPiece(reader);
      if (!value) {
        return;
      }
      const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const frame = parseFrame(block);
        if (frame) {
          yield frame;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => undefined); // broken already, or never answers
  }
}

/** The next piece of the body; undefined if none arrives. */
function nextPiece(
  reader: ReadableStreamDefaultReader<Uint8Array>
): Promise<Uint8Array | undefined> {
  return new Promise(resolve => {
    const forget = alarm(() => resolve(undefined), LONGEST_SILENCE, 'offline');
    const end = (piece?: Uint8Array): void => {
      forget();
      resolve(piece);
    };
    reader.read().then(
      ({ value }) => end(value),
      () => end()
    );
  });
}

function parseFrame(block: string): IFrame | null {
  const data: string[] = [];
  let id = '';
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(id|data): ?(.*)$/s.exec(line) ?? [];
    if (field === 'id') {
      id = value;
    } else if (field === 'data') {
      data.push(value);
    }
  }
  return data.length ? { id, data: data.join('\n') } : null;
}

/**
 * The response, or null if the same request may succeed in a moment: the network or a proxy failed. A refusal for the
 * reason `told` is not such an outage: the user learns how to fix it.
 */
async function unlessOutage(response: Promise<Response>, told = ''): Promise<Response | null> {
  try {
    return await response;
  } catch (error) {
    const outage =
      error instanceof RequestError
        ? error.status >= 502 && !(error.reason && error.reason === told)
        : error instanceof ServerConnection.NetworkError;
    if (outage) {
      return null;
    }
    throw error;
  }
}

/** Wait until the time is over, the browser is online again, or `signal` aborts. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const forget = alarm(resolve, milliseconds, 'online');
    signal.addEventListener('abort', () => {
      forget();
      resolve();
    });
  });
}

/** Calls back once, when the time is over or the browser has gone online or offline; returns a cancel function. */
function alarm(call: () => void, milliseconds: number, network: 'online' | 'offline'): () => void {
  const ring = (): void => {
    forget();
    call();
  };
  const forget = (): void => {
    clearTimeout(timer);
    window.removeEventListener(network, ring);
  };
  const timer = setTimeout(ring, milliseconds);
  window.addEventListener(network, ring);
  return forget;
}
