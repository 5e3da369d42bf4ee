import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPhrase, ITool, IToolWords, Words } from '../api/tools';
import { translated } from '../api/tools';
import type { Locate } from './cellNames';
import { listOf } from './cellNames';
import { mcpTool } from './mcpTools';
import { legible } from './oddCharacters';

/** Looks up a tool by its name; undefined for an unknown one. */
export type FindTool = (name: string) => ITool | undefined;

/** The input of a call: as written by a model, so it may be anything. */
export type Input = Readonly<Record<string, unknown>>;

/** To do, doing, done. */
export type Phrase = [todo: string, doing: string, done: string];

/** What fills the words for a call. */
export interface IFilling {
  input: Input;
  /** The cells that the call has changed, or ran; by default those that its input names. */
  changed?: readonly string[];
  ran?: readonly string[];
  /** The number of items that the words count; by default those in the input. */
  count?: number;
  /** Whether the input is complete, as that of a question is. */
  isComplete?: boolean;
  /** The path of its notebook, if it has to be named. */
  notebook?: string | null;
}

/** What a call of a tool does, in the tool's words: "Cell 5 edited", "Cell 5 edited in sales.ipynb". */
export function phrase(
  name: string,
  filling: IFilling,
  locate: Locate,
  tools: FindTool,
  trans: TranslationBundle
): Phrase {
  const remote = mcpTool(name);
  if (remote) {
    return [
      trans.__('Call %1 on %2', remote.tool, remote.server),
      trans.__('Calling %1 on %2', remote.tool, remote.server),
      trans.__('Called %1 on %2', remote.tool, remote.server)
    ];
  }
  const tool = tools(name);
  const words = wordsFor(tool, filling.input);
  const { todo, doing, done } = words ?? {
    todo: trans.__('Use %1', name),
    doing: trans.__('Using %1', name),
    done: trans.__('Used %1', name)
  };
  const all = [todo, doing, done].map(text => fillWords(text, words, filling, locate, trans));
  const { notebook } = filling;
  const named = !notebook || tool?.names_notebook === false || hasPlace(todo, 'notebook');
  return (named ? all : all.map(text => trans.__('%1 in %2', text, notebook))) as Phrase;
}

/** The words as the start of a sentence. */
export function capitalize(words: string): string {
  return words.charAt(0).toLocaleUpperCase() + words.slice(1);
}

/** Whether a call runs code in the notebook's own kernel; some edits also run the edited cells. */
export function runsCode(name: string, input: Input, tools: FindTool): boolean {
  return !mcpTool(name) && (tools(name)?.in_kernel === true || input.run === true);
}

/** The words of a tool for a call with this input. */
export function wordsFor(tool: ITool | undefined, input: Input): IToolWords | undefined {
  return tool?.words.find(({ given }) => !given || input[given]);
}

/** The cells that an input names. */
export function namedCells({ cell_id, cell_ids, edits }: Input): string[] {
  const written = listed(edits).map(edit => (edit as { cell_id?: unknown } | null)?.cell_id);
  const ids = new Set([cell_id, ...listed(cell_ids), ...written]);
  return [...ids].filter(id => typeof id === 'string').filter(Boolean);
}

/** The number of items that the words count in this input. */
export function countOf(words: IToolWords | undefined, input: Input): number {
  return listed(words?.counts && input[words.counts]).length || 1;
}

/** What a result came to, in its tool's words: "2 of 4 done"; empty for most tools. */
export function summaryOf(output: unknown, trans: TranslationBundle): string {
  const { summary } = (output ?? {}) as { summary?: unknown };
  return fillAll(listed(summary), trans);
}

/** Phrases as text; anything else among them is left out. */
export function fillAll(phrases: readonly unknown[], trans: TranslationBundle): string {
  return phrases
    .filter(isPhrase)
    .map(({ text, values }) =>
      fill(text, Number(values.count ?? 1), place => String(values[place] ?? ''), trans)
    )
    .join(', ');
}

function isPhrase(one: unknown): one is IPhrase {
  const { text, values } = (one ?? {}) as Partial<IPhrase>;
  const isPair =
    Array.isArray(text) && text.length === 2 && text.every(part => typeof part === 'string');
  return (typeof text === 'string' || isPair) && typeof values === 'object' && values !== null;
}

function fillWords(
  text: Words,
  words: IToolWords | undefined,
  { input, changed = [], ran = [], notebook, isComplete = false, ...rest }: IFilling,
  locate: Locate,
  trans: TranslationBundle
): string {
  const count = rest.count ?? countOf(words, input);
  const list = (ids: readonly string[], byDefault: string): string => {
    const isNone = Array.isArray(input.cell_ids) && !ids.length; // or not written yet
    if (isNone && isComplete) {
      return trans.__('no cells');
    }
    return ids.length || isNone || !byDefault ? listOf(ids, locate, trans) : byDefault;
  };
  const named = namedCells(input);
  const value = (place: string, byDefault: string): string => {
    switch (place) {
      case 'cells':
        return list(changed.length ? changed : named, byDefault);
      case 'ran':
        return list(ran.length ? ran : named, byDefault);
      case 'place':
        return placeOf(input, isComplete, locate, trans) || (isComplete ? byDefault : '');
      case 'notebook':
        return notebook || byDefault;
      case 'count':
        return String(count);
      default:
        return fieldOf(input[place]) || byDefault;
    }
  };
  const filled = words ? fill(text, count, value, trans) : (text as string);
  return capitalize(filled);
}

/** The translated template with its places filled. */
function fill(
  text: Words,
  count: number,
  value: (place: string, byDefault: string) => string,
  trans: TranslationBundle
): string {
  return translated(text, trans, count).replace(
    /\{(\w+)(?:\|([^}]*))?\}/g,
    (_, place: string, byDefault: string | undefined) => value(place, byDefault ?? '')
  );
}

function hasPlace(text: Words, place: string): boolean {
  return [text].flat().some(one => one.includes(`{${place}`));
}

/** " below cell 3" */
function placeOf(
  { after, before }: Input,
  isComplete: boolean,
  locate: Locate,
  trans: TranslationBundle
): string {
  const name = (id: string): string =>
    isComplete && locate(id) === null
      ? trans.__('cell %1', legible(quotedId(id)))
      : listOf([id], locate, trans);
  if (typeof after === 'string' && after) {
    return trans.__(' below %1', name(after));
  }
  return typeof before === 'string' && before ? trans.__(' above %1', name(before)) : '';
}

/** An id that is not open here, so that its end can be seen whatever it is. */
function quotedId(id: string): string {
  return /^[\w-]{1,64}$/.test(id) ? `“${id}”` : JSON.stringify(id.slice(0, 64));
}

function fieldOf(value: unknown): string {
  const items = Array.isArray(value) ? value : [value];
  return items.filter(item => typeof item === 'string' || typeof item === 'number').join(', ');
}

function listed(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
