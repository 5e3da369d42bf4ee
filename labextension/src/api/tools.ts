import type { TranslationBundle } from '@jupyterlab/translation';
import type { components } from './schemas';

type Schemas = components['schemas'];

/** What people read about a call of a tool. */
export type IToolWords = Schemas['ToolWords'];

/** Words with places to fill, as docs/plugs.md describes them; a pair is for one and for several. */
export type Words = IToolWords['todo'];

/** A tool for models. */
export type ITool = Pick<
  Schemas['ListedTool'],
  'name' | 'former_names' | 'effect' | 'in_kernel' | 'names_notebook' | 'words' | 'icon'
>;

/** Words with their values. */
export type IPhrase = Schemas['PhraseAnswer'];

/** The words in the user's language, for so many; their places are not filled yet. */
export function translated(text: Words, trans: TranslationBundle, count = 1): string {
  /* eslint-disable jupyter/no-dynamic-translation -- the server's tools are the source of these words */
  return typeof text === 'string' ? trans.__(text) : trans._n(text[0], text[1], count);
  /* eslint-enable jupyter/no-dynamic-translation */
}
