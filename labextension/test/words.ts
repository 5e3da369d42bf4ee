import { nullTranslator } from '@jupyterlab/translation';
import { readFileSync } from 'fs';
import { join } from 'path';
import type { ITool } from '../src/api/tools';
import { ofService } from '../src/api/tools';
import type { FindTool } from '../src/wording/toolPhrases';

const FOLDER = join(__dirname, '../../tests/wire/words');

/** The tools as the server lists them (`tests/tools/test_words.py`), with those of services. */
export const tools: FindTool = name =>
  TOOLS.find(tool => tool.name === name || tool.former_names?.includes(name)) ??
  ofService(name, nullTranslator.load(''));

const TOOLS = read<ITool[]>('tools.json');

/** Calls and the words for them that both languages agree on. */
export const WORDED_CALLS = read<[tool: string, input: object, words: string][]>('cases.json');

function read<T>(name: string): T {
  return JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as T;
}
