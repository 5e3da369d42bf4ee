import type { TranslationBundle } from '@jupyterlab/translation';
import type { IUsage } from '../api/protocol';

/** All tokens of a turn, of whatever kind. */
export function totalOf(usage: IUsage): number {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens = 0 } = usage;
  return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
}

/** "950", "18.2k". */
export function count(tokens: number, trans: TranslationBundle): string {
  return tokens < 1000 ? `${tokens}` : trans.__('%1k', (tokens / 1000).toFixed(1));
}
