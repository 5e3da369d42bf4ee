import type { TranslationBundle } from '@jupyterlab/translation';
import type { Effort } from '../api/protocol';

/** The names of the efforts, lowest first. */
export function efforts(trans: TranslationBundle): Record<Effort, string> {
  return {
    none: trans.__('No thinking'),
    low: trans.__('Low effort'),
    medium: trans.__('Medium effort'),
    high: trans.__('High effort'),
    max: trans.__('Max effort')
  };
}
