import type { TranslationBundle } from '@jupyterlab/translation';

/** Words with places to fill, as docs/plugs.md describes them; a pair is for one and for several. */
export type Words = string | readonly [string, string];

/** What people read about a call of a tool. */
export interface IToolWords {
  todo: Words;
  doing: Words;
  done: Words;
  /** What one allows by "always". */
  scope?: string;
  /** The field that an input must have for these words. */
  given?: string;
  /** The field with the list that is counted. */
  counts?: string;
  /** What else a person has to know to decide. */
  caution?: string;
}

/** A tool for models. */
export interface ITool {
  name: string;
  former_names?: string[];
  effect: 'read' | 'edit' | 'run';
  /** Whether it runs code in the notebook's kernel. */
  in_kernel: boolean;
  /** Whether a call is about one notebook. */
  names_notebook: boolean;
  words: IToolWords[];
  icon: string;
}

/** What a result came to, for people. */
export interface ISummary {
  text: Words;
  values: Record<string, number>;
}

/** The words in the user's language, for so many; their places are not filled yet. */
export function translated(text: Words, trans: TranslationBundle, count = 1): string {
  /* eslint-disable jupyter/no-dynamic-translation -- the server's tools are the source of these words */
  return typeof text === 'string' ? trans.__(text) : trans._n(text[0], text[1], count);
  /* eslint-enable jupyter/no-dynamic-translation */
}
