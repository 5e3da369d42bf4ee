import type { Event } from '@jupyterlab/services';
import { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { Announcements, SCHEMA } from '../src/api/announcements';
import { AgentClient } from '../src/api/client';
import type { AgentChunk } from '../src/api/protocol';

type Answer = Response | Promise<Response>;

/** A fake server: routes answer from a table, and requests are recorded. */
export class Server {
  readonly requests: { method: string; path: string; body: unknown; headers: Headers }[] = [];
  readonly routes: Record<string, (body: unknown) => Answer> = {};
  private readonly _stream = new Signal<Event.IManager, Event.Emission>({} as Event.IManager);
  readonly announcements = new Announcements({ stream: this._stream } as unknown as Event.IManager);

  /** Emit an event on Jupyter's event stream. */
  announce(conversation_id: string, turn_id: string | null): void {
    this._stream.emit({ schema_id: SCHEMA, conversation_id, turn_id });
  }

  get settings(): ServerConnection.ISettings {
    return ServerConnection.makeSettings({
      baseUrl: 'http://lab/',
      token: '',
      fetch: async (info: RequestInfo) => {
        const request = info as Request;
        const path = new URL(request.url).pathname.replace('/api/agent/', '');
        const text = await request.text();
        const body: unknown = text ? JSON.parse(text) : null;
        this.requests.push({ method: request.method, path, body, headers: request.headers });
        const route = this.routes[`${request.method} ${path}`];
        return route ? route(body) : json({ message: 'There is no such thing.' }, 404);
      }
    });
  }

  get client(): AgentClient {
    return new AgentClient(this.settings);
  }

  /** The requests to a route. */
  to(route: string): Server['requests'] {
    return this.requests.filter(({ method, path }) => `${method} ${path}` === route);
  }
}

export function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status });
}

/** An event stream of these chunks, cut off before its end unless `done`. */
export function events(chunks: readonly AgentChunk[], from = 0, done = true): Response {
  const frames = chunks.map(
    (chunk, index) => `id: ${index + 1}\ndata: ${JSON.stringify(chunk)}\n\n`
  );
  return new Response(frames.slice(from).join('') + (done ? 'data: [DONE]\n\n' : ''));
}

/** An event stream that the test writes. */
export class LiveStream {
  private _controller!: ReadableStreamDefaultController<Uint8Array>;
  private _last = 0;

  readonly response = new Response(
    new ReadableStream<Uint8Array>({ start: controller => void (this._controller = controller) })
  );

  tell(...chunks: AgentChunk[]): void {
    for (const chunk of chunks) {
      this._write(`id: ${++this._last}\ndata: ${JSON.stringify(chunk)}\n\n`);
    }
  }

  end(): void {
    this._write('data: [DONE]\n\n');
    this._controller.close();
  }

  private _write(text: string): void {
    this._controller.enqueue(new TextEncoder().encode(text));
  }
}
