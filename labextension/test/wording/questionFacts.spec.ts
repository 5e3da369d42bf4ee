import { nullTranslator } from '@jupyterlab/translation';
import type { IApproval } from '../../src/api/protocol';
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
    const asked = question({ clusters: ['Dask', 'Spark'] });
    expect(factsOf(asked, tools, trans)).toBe('Starts a cluster job (Dask, Spark)');
  });

  it('says which server gets the arguments, and names its tool as that does', () => {
    const asked = question({ tool: 'mcp__db__a_b', server: 'db', server_tool: 'a.b\u202e' });
    expect(factsOf(asked, tools, trans)).toBe('The MCP server “db” gets this for “a.b⟨U+202E⟩”');
  });

  it('names the kernel for which alone the answer holds, where there is one', () => {
    expect(factsOf(question({}), tools, trans)).toBe('');
    const restart = question({ tool: 'restart_kernel', kernel: 'python3' });
    expect(factsOf(restart, tools, trans)).toBe('Kernel “python3”, all variables are lost');
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
