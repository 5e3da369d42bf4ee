import * as React from 'react';
import type { ISentRequest } from '../api/protocol';
import { modelName } from '../wording/callDescriptions';
import { Code } from './Code';
import { intoView } from './intoView';
import { useServices } from './services';

/** The requests: not requested, loading, loaded, or why loading failed. */
type Found = { requests: readonly ISentRequest[] } | { failure: string } | 'loading' | null;

/** The requests of a turn, which are read when they are first shown. */
export function useSentRequests(turnId: string): { found: Found; toggle: () => void } {
  const { requestsOf } = useServices();
  const [found, setFound] = React.useState<Found>(null);
  const toggle = (): void => {
    if (found) {
      setFound(null);
      return;
    }
    setFound('loading');
    requestsOf(turnId).then(
      requests => setFound({ requests }),
      (error: unknown) => setFound({ failure: String(error) })
    );
  };
  return { found, toggle };
}

/** Every request of a turn, as sent to the model. */
export function SentRequests({ found }: { found: Found }): React.JSX.Element | null {
  const { trans } = useServices();
  if (!found || found === 'loading') {
    return null;
  }
  return (
    <div
      role="group"
      aria-label={trans.__('Requests')}
      className="jp-Agent-sent jp-Agent-opened"
      ref={intoView}
    >
      {'failure' in found ? (
        <p>{found.failure}</p>
      ) : found.requests.length ? (
        found.requests.map((request, index) => (
          <Request key={index} request={request} number={index + 1} />
        ))
      ) : (
        <p>{trans.__('Nothing was sent: the demo runs locally.')}</p>
      )}
    </div>
  );
}

function Request(props: { request: ISentRequest; number: number }): React.JSX.Element {
  const { trans } = useServices();
  const { host, made, characters, model, system, tools, messages } = props.request;
  const kilobytes = (characters / 1000).toFixed(1);
  const time = new Date(made).toLocaleTimeString();
  return (
    <details className="jp-Agent-sentRequest">
      <summary>
        {trans.__('Request %1', props.number)}{' '}
        <span className="jp-Agent-note">
          {[modelName(model), host, trans.__('%1 kB', kilobytes), time].join('  ')}
        </span>
      </summary>
      <Piece title={trans.__('Instructions')} value={system} />
      <Piece title={trans._n('1 tool', '%1 tools', tools.length)} value={tools} />
      {messages.map(({ role, content }, index) => (
        <Piece key={index} title={`${index + 1}. ${role}`} value={content} />
      ))}
    </details>
  );
}

/** One part of a request: text verbatim, anything else as JSON. */
function Piece({ title, value }: { title: string; value: unknown }): React.JSX.Element {
  const [open, setOpen] = React.useState(false);
  const text = React.useMemo(() => (open ? asText(value) : ''), [open, value]);
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && <Code text={text} mimeType="text/plain" />}
    </details>
  );
}

function asText(value: unknown): string {
  if (typeof value === 'string') {
    return value;
  }
  if (Array.isArray(value) && value.every(isText)) {
    return value.map(({ text }) => text).join('\n\n');
  }
  return JSON.stringify(value, null, 2);
}

function isText(block: unknown): block is { text: string } {
  return (block as { type?: unknown } | null)?.type === 'text';
}
