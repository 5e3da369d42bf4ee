import { nullTranslator } from '@jupyterlab/translation';
import type { IApproval } from '../../src/api/protocol';
import { factsOf } from '../../src/wording/questionFacts';

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
    const asked = question({ clusters: ['Dask', 'Spark'] });
    expect(factsOf(asked, () => 2, trans)).toBe('Starts a cluster job (Dask, Spark)');
  });

  it('says nothing of code that starts none', () => {
    expect(factsOf(question({}), () => 2, trans)).toBe('');
  });
});
