import type { TranslationBundle } from '@jupyterlab/translation';
import type { ITool, IToolWords } from './tools';

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
