import { nullTranslator } from '@jupyterlab/translation';
import type { CallPart, IChange } from '../../src/api/protocol';
import { summarizeWork } from '../../src/wording/workSummary';

const trans = nullTranslator.load('jupyter_agent');
const ORDER = ['a1', 'b2', 'c3', 'd4', 'e5'];
const locate = (id: string): number | null => ORDER.indexOf(id) + 1 || null;
const edit = (cell_id: string): IChange =>
  ({ notebook: 'n.ipynb', cell_id, kind: 'update' }) as IChange;
const called = (toolName: string, input: object, state = 'output-available'): CallPart =>
  ({ type: 'dynamic-tool', toolName, input, state, output: {} }) as unknown as CallPart;
const failed = (toolName: string, input: object): CallPart =>
  called(toolName, input, 'output-error');
const ran = (...cells: [string, string][]): CallPart =>
  ({
    type: 'dynamic-tool',
    output: { cells: cells.map(([cell_id, status]) => ({ cell_id, status, outputs: [] })) }
  }) as unknown as CallPart;

describe('summarizeWork', () => {
  it('counts steps and changed cells, each once, and names the cells that ran', () => {
    const calls = [ran(['b2', 'ok'], ['c3', 'ok']), ran(['c3', 'ok'], ['e5', 'ok'])];
    const outputs = { ...edit('d4'), kind: 'outputs' } as IChange;
    const { text } = summarizeWork(calls, [edit('a1'), edit('a1'), outputs], locate, trans);
    expect(text).toBe('2 steps, 1 cell changed, ran 2–3, 5');
  });

  it('counts cells that are not in sight', () => {
    expect(summarizeWork([ran(['x', 'ok'], ['y', 'ok'])], [], locate, trans).text).toBe(
      '1 step, ran 2 cells'
    );
  });

  it('says how much was denied', () => {
    const denied = { ...ran(), state: 'output-denied' } as CallPart;
    expect(summarizeWork([ran(), denied], [], locate, trans).text).toBe('2 steps, 1 denied');
  });

  it('says of a cell that it ran only when that has ended', () => {
    const going = ran(['b2', 'ok'], ['c3', 'running']);
    const text = (...calls: CallPart[]): string => summarizeWork(calls, [], locate, trans).text;
    expect(text(going)).toBe('1 step, ran 2, cell 3 still running');
    expect(text(ran(['b2', 'queued']))).toBe('1 step, cell 2 queued');
    expect(text(going, ran(['c3', 'ok']))).toBe('2 steps, ran 2–3');
  });

  it.each([
    ['error', 'error in cell 2'],
    ['interrupted', 'interrupted in cell 2'],
    ['timeout', 'took too long in cell 2'],
    ['died', 'the kernel died in cell 2']
  ])('says of a cell whose last run was not ok (%s) how it ended', (status, fault) => {
    expect(summarizeWork([ran(['a1', 'ok'], ['b2', status])], [], locate, trans).fault).toBe(fault);
  });

  it('says which cell failed, unless it ran again without an error', () => {
    const error = ran(['b2', 'error']);
    expect(summarizeWork([error], [], locate, trans).fault).toBe('error in cell 2');
    expect(summarizeWork([error, ran(['b2', 'ok'])], [], locate, trans).fault).toBe('');
  });

  it('says how many calls failed, unless the same was tried again and succeeded', () => {
    const fault = (...calls: CallPart[]): string => summarizeWork(calls, [], locate, trans).fault;
    const [a, b] = [{ cell_id: 'a1' }, { cell_id: 'b2' }];
    expect(fault(failed('read_notebook', {}))).toBe('1 step failed');
    expect(fault(failed('edit_cells', a), failed('edit_cells', b))).toBe('2 steps failed');
    expect(fault(failed('edit_cells', a), called('edit_cells', a))).toBe('');
    expect(fault(failed('edit_cells', a), called('edit_cells', b))).toBe('1 step failed');
    expect(fault(failed('edit_cells', a), called('read_cells', a))).toBe('1 step failed');
    expect(fault(called('edit_cells', a), failed('edit_cells', a))).toBe('1 step failed');
    const elsewhere = { ...a, notebook: 'other.ipynb' };
    expect(fault(failed('edit_cells', elsewhere), called('edit_cells', a))).toBe('1 step failed');
    expect(fault(failed('read_file', { path: 'a' }), called('read_file', { path: 'b' }))).toBe(
      '1 step failed'
    );
    const denied = called('edit_cells', a, 'output-denied');
    expect(fault(failed('edit_cells', a), denied)).toBe('1 step failed');
    expect(fault(failed('edit_cells', a), ran(['b2', 'error']))).toBe(
      'error in cell 2, 1 step failed'
    );
  });

  it('says of a result that is not good, without a summary, that it failed', () => {
    const old = { ...called('verify_notebook', {}), output: { ok: false } } as CallPart;
    expect(summarizeWork([old], [], locate, trans).fault).toBe('1 step failed');
  });
});
