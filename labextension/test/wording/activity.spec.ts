import { nullTranslator } from '@jupyterlab/translation';
import type { CallPart } from '../../src/api/protocol';
import { activityOfCall } from '../../src/wording/activity';
import { tools } from '../words';

const trans = nullTranslator.load('jupyter_agent');
const ORDER = ['a1', 'b2', 'c3'];
const locate = (id: string): number | null => ORDER.indexOf(id) + 1 || null;
const IDLE = { starting: false, busy: null };

function call(toolName: string, input: object, runs: object[] = []): CallPart {
  const cells = runs.map(run => ({ outputs: [], ...run }));
  const output = { state: 'output-available', preliminary: true, output: { cells } };
  return {
    type: 'dynamic-tool',
    toolCallId: 'toolu_1',
    toolName,
    input,
    ...(runs.length ? output : { state: 'input-available' })
  } as unknown as CallPart;
}

describe('activityOfCall', () => {
  const all = call('run_cells', {}, [
    { run_id: 'r1', cell_id: 'a1', status: 'ok' },
    { run_id: 'r2', cell_id: 'b2', status: 'running' }
  ]);
  const queued = call('run_cells', {}, [{ run_id: 'r1', cell_id: 'a1', status: 'queued' }]);

  it.each([
    ['Running cell 2', call('run_cell', { cell_id: 'b2' }), IDLE],
    ['Running cell 2', all, IDLE],
    ['Editing cell 3', call('update_cell', { cell_id: 'c3' }), { starting: true, busy: null }],
    ['Starting the kernel', call('run_cell', { cell_id: 'b2' }), { starting: true, busy: null }],
    ['Cell 3 is running your code. Queued behind it', queued, { starting: false, busy: 3 }]
  ])('says %s', (words, part, kernel) => {
    expect(activityOfCall(part, locate, kernel, tools, trans).text).toBe(words);
  });

  it('counts anew when the next cell runs', () => {
    const next = call('run_cells', {}, [{ run_id: 'r3', cell_id: 'c3', status: 'running' }]);
    const [one, other] = [all, next].map(
      part => activityOfCall(part, locate, IDLE, tools, trans).key
    );
    expect(one).not.toBe(other);
  });
});
