import { nullTranslator } from '@jupyterlab/translation';
import type { INotice } from '../../src/api/protocol';
import { noticeWords } from '../../src/wording/noticeWords';

const trans = nullTranslator.load('jupyter_agent');
const words = (kind: string, facts: Partial<INotice> = {}): string =>
  noticeWords({ kind, text: 'The server says it.', ...facts }, trans);

describe('noticeWords', () => {
  it.each<[string, Partial<INotice>, string]>([
    ['step-limit', { limit: 'steps' }, 'The step limit is reached. This is the last answer.'],
    [
      'budget',
      { limit: 'month' },
      'Your budget for this month is used up; a new month starts on the 1st (UTC). This is the last answer.'
    ],
    [
      'compacted',
      { how: 'summarised' },
      'The conversation was too long for the model and was summarised.'
    ],
    [
      'provider',
      { host: 'api.anthropic.com', model: 'anthropic:claude-x', share: 'code-only' },
      'Your messages and the code of the cells it reads are sent to api.anthropic.com (anthropic:claude-x). Cells tagged agent-hidden are never sent.'
    ],
    [
      'withheld',
      { turns: 2 },
      '2 earlier answers are not sent to the model: they shared more than you share now.'
    ],
    ['cut-off', {}, 'The answer became too long and was cut off. Ask to continue.'],
    ['notebook-changed', { notebook: 'sales.ipynb' }, 'sales.ipynb was changed during the answer.']
  ])('words %s by its facts', (kind, facts, said) => {
    expect(words(kind, facts)).toBe(said);
  });

  it.each(['tools-missing', 'of-a-later-version', 'provider', 'compacted', 'window'])(
    'gives the sentence of the server for %s without facts',
    kind => {
      expect(words(kind)).toBe('The server says it.');
    }
  );
});
