import * as React from 'react';
import type { IUsage } from '../protocol';
import { useConversation, useServices } from './services';

/** What the last answer took. */
export function Usage(): React.JSX.Element | null {
  const { trans } = useServices();
  const { messages } = useConversation();
  const { usage, steps } = messages.findLast(({ role }) => role === 'assistant')?.metadata ?? {};
  const total = usage ? totalOf(usage) : 0;
  if (!usage || !total) {
    return null;
  }
  const cached = Math.round((100 * usage.cache_read_tokens) / total);
  const tokens = total < 1000 ? `${total}` : trans.__('%1k', (total / 1000).toFixed(1));
  return (
    <div className="jp-Agent-usage">
      {steps !== undefined && <span>{trans._n('1 step', '%1 steps', steps)}</span>}
      <span>
        {cached
          ? trans.__('%1 tokens (%2% cached)', tokens, cached)
          : trans.__('%1 tokens', tokens)}
      </span>
    </div>
  );
}

function totalOf(usage: IUsage): number {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens = 0 } = usage;
  return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
}
