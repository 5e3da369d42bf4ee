import { nullTranslator } from '@jupyterlab/translation';
import type { ICellGlance } from '../../src/bridge/cellGlance';
import { modelName } from '../../src/wording/callDescriptions';
import { suggestedRequests } from '../../src/wording/suggestedRequests';

const trans = nullTranslator.load('jupyter_agent');
const cell = (source: string, more: Partial<ICellGlance> = {}): ICellGlance => ({
  type: 'code',
  source,
  failed: false,
  executed: true,
  ...more
});

describe('ideas', () => {
  it('come from what stands in the notebook, the most pressing first', () => {
    const cells = [
      cell('Some words\n\n## Sales, Q3 ##\nmore', { type: 'markdown' }),
      cell('import pandas as pd\nsales = pd.read_csv("sales.csv")'),
      cell('1 / 0', { failed: true }),
      cell('def mean(x):\n    pass', { executed: false })
    ];
    expect(suggestedRequests(cells, trans)).toEqual([
      'Fix the error in cell 3',
      'Explain “Sales, Q3” step by step',
      'Plot the key trends in sales'
    ]);
  });

  it('go on with what is left to do where nothing presses', () => {
    expect(suggestedRequests([cell('def mean(x):\n    pass', { executed: false })], trans)).toEqual(
      ['Explain what this notebook does', 'Run all cells and fix errors', 'Write a test for mean']
    );
  });

  it('help to begin in an empty notebook', () => {
    expect(suggestedRequests([cell('  \n')], trans)[0]).toBe('Find a data file here and load it');
    expect(suggestedRequests(null, trans)).toEqual(['What can you do?']);
  });
});

describe('modelName', () => {
  it.each([
    ['anthropic:claude-sonnet-5-5', 'Sonnet 5.5'],
    ['ollama:qwen3:8b', 'qwen3:8b'],
    ['demo:tour', 'Demo']
  ])('calls %s %s', (model, name) => {
    expect(modelName(model)).toBe(name);
  });
});
