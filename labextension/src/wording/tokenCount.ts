import type { TranslationBundle } from '@jupyterlab/translation';
import type { IMessageMetadata, IUsage } from '../api/protocol';

/** All tokens of a turn, of every kind. */
export function totalOf(usage: IUsage): number {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens = 0 } = usage;
  return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
}

/** "950", "18.2k". */
export function count(tokens: number, trans: TranslationBundle): string {
  return tokens < 1000 ? `${tokens}` : trans.__('%1k', (tokens / 1000).toFixed(1));
}

/** "4 requests, 19.2k tokens, cost 0.04", as far as it is known. */
export function usageWords({ steps, usage }: IMessageMetadata, trans: TranslationBundle): string {
  const total = usage ? totalOf(usage) : 0;
  return [
    steps && trans._n('1 request', '%1 requests', steps),
    total && trans.__('%1 tokens', count(total, trans)),
    typeof usage?.cost === 'number' && total && trans.__('cost %1', money(usage.cost))
  ]
    .filter(Boolean)
    .join(', ');
}

/** Two decimals, or two significant digits for small amounts; the currency is that of the prices. */
export function money(cost: number): string {
  return cost >= 0.1 || cost === 0 ? cost.toFixed(2) : cost.toPrecision(2);
}
