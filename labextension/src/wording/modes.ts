import type { TranslationBundle } from '@jupyterlab/translation';
import type { Mode } from '../api/protocol';

/** The names and descriptions of the modes. */
export function modes(trans: TranslationBundle): Record<Mode, { name: string; meaning: string }> {
  return {
    read: { name: trans.__('Read only'), meaning: trans.__('looks, changes nothing') },
    ask: { name: trans.__('Ask first'), meaning: trans.__('approve each change and run') },
    edit: { name: trans.__('Edit'), meaning: trans.__('edits freely, asks before running') },
    auto: { name: trans.__('Auto'), meaning: trans.__('edits and runs without asking') }
  };
}
