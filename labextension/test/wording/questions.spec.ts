import { nullTranslator } from '@jupyterlab/translation';
import type { IApproval } from '../../src/api/protocol';
import { describeQuestion, describeQuestions } from '../../src/wording/questions';
import { WORDED_CALLS, tools } from '../words';

const trans = nullTranslator.load('jupyter_agent');
const ORDER = ['a1', 'b2', 'c3', 'd4', 'e5'];
const locate = (id: string): number | null => ORDER.indexOf(id) + 1 || null;

describe('describeQuestion', () => {
  it.each(WORDED_CALLS)('says what %s with %j would do: %s', (tool, input, words) => {
    const approval = { tool, input, cell_id: null } as IApproval;
    expect(describeQuestion(approval, locate, tools, trans)).toBe(words);
  });

  it('names a place that is not open so that its end is seen', () => {
    const approval = { tool: 'move_cell', input: { cell_id: 'b2', after: 'c3” or not “' } };
    const words = describeQuestion(approval as unknown as IApproval, locate, tools, trans);
    expect(words).toBe('Move cell 2 below cell "c3” or not “"');
  });
});

describe('describeQuestions', () => {
  const ask = (tool: string, cell_id: string): IApproval => ({
    id: `${tool}-${cell_id}`,
    call_id: 'toolu_1',
    tool,
    input: tool === 'run_cells' && cell_id ? { cell_ids: [cell_id] } : { cell_id },
    notebook: 'a.ipynb',
    cell_id: cell_id || null,
    expires: ''
  });

  it.each([
    ['Run cell 2', [ask('run_cells', 'b2')]],
    ['Edit and run cell 2', [ask('edit_cells', 'b2'), ask('run_cells', 'b2')]],
    ['Edit cell 2 and delete cell 3', [ask('edit_cells', 'b2'), ask('delete_cell', 'c3')]],
    ['Edit cell 2 and run all cells', [ask('edit_cells', 'b2'), ask('run_cells', '')]],
    [
      'Edit cells 2, 4, add 2 cells and restart the kernel',
      [
        ask('edit_cells', 'd4'),
        ask('create_cells', ''),
        ask('edit_cells', 'b2'),
        ask('create_cells', ''),
        ask('restart_kernel', '')
      ]
    ],
    ['Use del⟨U+202E⟩', [ask('del\u202e', '')]],
    [
      'Edit cell 1 and edit and run cells 2, 4',
      [
        ask('edit_cells', 'a1'),
        { ...ask('edit_cells', 'd4'), input: { edits: [{ cell_id: 'd4' }], run: true } },
        { ...ask('edit_cells', 'b2'), input: { edits: [{ cell_id: 'b2' }], run: true } }
      ]
    ],
    ['Run all cells', [ask('run_cells', 'b2'), ask('run_cells', '')]],
    [
      'Create a.ipynb and create b.ipynb',
      ['a.ipynb', 'b.ipynb'].map(path => ({ ...ask('create_notebook', ''), input: { path } }))
    ]
  ])('says %s', (words, approvals) =>
    expect(describeQuestions(approvals, locate, tools, trans)).toBe(words)
  );
});
