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

/** A tool that the model's service runs; undefined for other tools. */
export function ofService(name: string, trans: TranslationBundle): ITool | undefined {
  const isWeb = name === 'web_search' || name === 'web_fetch';
  if (!isWeb && !CODE.includes(name)) {
    return undefined;
  }
  const words = isWeb ? ofWeb(trans) : [ofCode(trans)];
  const icon = isWeb ? 'search' : 'code';
  return { name, effect: 'read', in_kernel: false, names_notebook: false, words, icon };
}

const CODE = ['code_execution', 'bash_code_execution', 'text_editor_code_execution'];

function ofCode(trans: TranslationBundle): IToolWords {
  return {
    todo: trans.__('Run code at the model’s service'),
    doing: trans.__('Running code at the model’s service'),
    done: trans.__('Ran code at the model’s service')
  };
}

function ofWeb(trans: TranslationBundle): IToolWords[] {
  return [
    {
      todo: trans.__('Read {url}'),
      doing: trans.__('Reading {url}'),
      done: trans.__('Read {url}'),
      given: 'url'
    },
    {
      todo: trans.__('Search the web for “{query}”'),
      doing: trans.__('Searching the web for “{query}”'),
      done: trans.__('Searched the web for “{query}”'),
      given: 'query'
    },
    {
      todo: trans.__('Search the web'),
      doing: trans.__('Searching the web'),
      done: trans.__('Searched the web')
    }
  ];
}
