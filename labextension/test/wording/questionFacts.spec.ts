import { nullTranslator } from '@jupyterlab/translation';
import type { IApproval } from '../../src/api/protocol';
import type { IPhrase } from '../../src/api/tools';
import { factsOf, scopeOf } from '../../src/wording/questionFacts';
import { tools } from '../words';

const trans = nullTranslator.load('');

function question(more: Partial<IApproval>): IApproval {
  return {
    id: 'a1',
    call_id: 'c1',
    tool: 'run_cell',
    input: { cell_id: 'b2' },
    notebook: 'a.ipynb',
    cell_id: 'b2',
    expires: '2026-01-01T00:00:00Z',
    ...more
  };
}

describe('factsOf', () => {
  it('says that code starts a cluster job', () => {
    const text = 'starts a cluster job ({systems})';
    const facts: IPhrase[] = [
      { text: 'kernel “{kernel}”', values: { kernel: 'python3' } },
      { text, values: { systems: 'Dask, Spark' } }
    ];
    const asked = question({ cell_type: 'code', facts });
    const words = 'Code cell, kernel “python3”, starts a cluster job (Dask, Spark)';
    expect(factsOf(asked, trans)).toBe(words);
  });

  it('spells out invisible characters', () => {
    const facts = [{ text: 'for “{tool}”', values: { tool: 'a.b\u202e' } }];
    expect(factsOf(question({ facts }), trans)).toBe('For “a.b⟨U+202E⟩”');
  });

  it('is empty for a question that says all', () => {
    expect(factsOf(question({}), trans)).toBe('');
  });
});

describe('scopeOf', () => {
  it('names tool and server, and promises nothing of kernels', () => {
    const asked = question({ tool: 'mcp__db__query', server: 'db', input: { run: true } });
    expect(scopeOf([asked], tools, trans)).toBe(
      'Call query on db, with any input, in a.ipynb, in this conversation'
    );
  });
});
