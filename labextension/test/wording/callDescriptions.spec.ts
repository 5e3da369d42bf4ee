import { nullTranslator } from '@jupyterlab/translation';
import type { CallPart, IApproval, IChange, IEndedRun } from '../../src/api/protocol';
import { currentCall, describeCall, duration, endOfRun } from '../../src/wording/callDescriptions';
import { describeQuestions } from '../../src/wording/questions';
import { tools } from '../words';

const trans = nullTranslator.load('jupyter_agent');
const ORDER = ['a1', 'b2', 'c3', 'd4', 'e5'];
const locate = (id: string): number | null => ORDER.indexOf(id) + 1 || null;

function said(toolName: string, input: object, rest: object = {}, changes: IChange[] = []): string {
  const call = {
    type: 'dynamic-tool',
    toolCallId: 'toolu_1',
    toolName,
    input,
    state: 'output-available',
    output: { text: '' },
    ...rest
  } as CallPart;
  const { text, note, fault } = describeCall(call, changes, locate, tools, trans);
  const result = [fault, note].filter(Boolean).join(', ');
  return result ? `${text} (${result})` : text;
}

describe('describeCall', () => {
  it.each([
    ['get_notebook_state', {}, 'Read the notebook'],
    ['read_cells', { cell_ids: ['a1', 'c3'] }, 'Read cells 1, 3'],
    ['search_notebook', { query: 'df' }, 'Searched for “df”'],
    ['web_search', { query: 'pandas 3' }, 'Searched the web for “pandas 3”'],
    ['web_search', { url: 'https://pandas.example/merge' }, 'Read https://pandas.example/merge'],
    ['web_search', {}, 'Searched the web'],
    ['web_fetch', { url: 'https://pandas.example' }, 'Read https://pandas.example'],
    ['code_execution', { code: '6 * 7' }, 'Ran code at the model’s service'],
    ['bash_code_execution', { command: 'ls' }, 'Ran code at the model’s service'],
    ['create_cell', { after: 'b2', source: '' }, 'A cell added'],
    ['create_cells', { cells: [{}, {}] }, '2 cells added'],
    ['edit_cells', { edits: [{ cell_id: 'b2' }, { cell_id: 'b2' }] }, 'Cell 2 edited'],
    ['edit_cells', { edits: 'b2' }, 'A cell edited'],
    ['run_code', { code: '1 + 1' }, 'Ran code'],
    ['update_cell', { cell_id: 'b2' }, 'Cell 2 edited'],
    ['delete_cell', { cell_id: 'gone' }, 'A cell deleted'],
    ['move_cell', { cell_id: 'b2', after: 'd4' }, 'Moved cell 2 below cell 4'],
    ['move_cell', { cell_id: 'b2', before: 'a1' }, 'Moved cell 2 above cell 1'],
    ['run_cells', { cell_ids: ['d4', 'b2', 'c3'] }, 'Ran cells 2–4'],
    ['run_cells', {}, 'Ran all cells'],
    ['inspect_variables', { names: ['df', 'x'] }, 'Looked at df, x'],
    ['mcp__my-db__read_rows', {}, 'Called read_rows on my-db'],
    ['mcp__db__a__b', { cell_id: { x: 1 }, source: 7, notebook: [] }, 'Called a__b on db'],
    ['mcp__db', {}, 'Used mcp__db'],
    ['something_new', {}, 'Used something_new']
  ])('says what %s did with %j', (tool, input, words) => {
    expect(said(tool, input)).toBe(words);
  });

  it.each([
    [[], 'Cell 2 edited (not run)'],
    [['ok'], 'Cell 2 edited and run (not all run)'],
    [['error'], 'Cell 2 edited and run (error)']
  ])('does not say that a cell ran which did not, after runs %j', (statuses, words) => {
    const cells = statuses.map(status => ({ status, cell_id: 'b2', outputs: [] }));
    const output = { text: '', not_run: 'Not run: the kernel is not installed.', cells };
    const input = { edits: [{ cell_id: 'b2' }], run: true };
    expect(said('edit_cells', input, { output })).toBe(words);
  });

  it.each([
    ['Cells 2–4 edited and run (0.6 s)', { b2: 'ok', c3: 'ok', d4: 'ok' }],
    ['Cells 2–4 edited (ran 3–4, 0.4 s)', { c3: 'ok', d4: 'ok' }],
    ['Cells 2–4 edited (error, ran 3, 0.2 s)', { c3: 'error' }],
    ['Cells 2–4 edited (ran 2, still running in cell 4, 0.4 s)', { b2: 'ok', d4: 'running' }],
    ['Cells 2–4 edited (queued, 0.2 s)', { b2: 'queued' }],
    ['Cells 2–4 edited', {}]
  ])('says which cells ran if some are text, or wait: %s', (words, ran) => {
    const cells = Object.entries(ran).map(([cell_id, status]) => ({
      cell_id,
      status,
      seconds: 0.2,
      outputs: []
    }));
    const edits = ['b2', 'c3', 'd4'].map(cell_id => ({ cell_id }));
    expect(said('edit_cells', { edits, run: true }, { output: { text: '', cells } })).toBe(words);
  });

  it.each([
    ['Cell 4 added', []],
    ['Cell 4 added and run', ['d4']]
  ])('does not say that a new cell of text was run: %s', (words, ran) => {
    const change = { cell_id: 'd4', kind: 'insert', before: null } as IChange;
    const cells = ran.map(cell_id => ({ cell_id, status: 'ok', outputs: [] }));
    const input = { cells: [{ source: '' }], run: true };
    expect(said('create_cells', input, { output: { text: '', cells } }, [change])).toBe(words);
  });

  it.each([
    [
      'write_plan',
      'Plan (1 of 2 done)',
      [{ text: '{done} of {count} done', values: { done: 1, count: 2 } }]
    ],
    [
      'get_notebook_state',
      'Read the notebook (1 cell)',
      [{ text: ['{count} cell', '{count} cells'], values: { count: 1 } }]
    ],
    [
      'verify_notebook',
      'Checked the notebook (2 differ, 1 failed)',
      [
        { text: ['{count} differs', '{count} differ'], values: { count: 2 } },
        { text: '{count} failed', values: { count: 1 } }
      ]
    ],
    [
      'read_file',
      'Listed files',
      [
        { text: 'x', values: null },
        { text: [], values: {} }
      ]
    ],
    ['read_file', 'Listed files', 'odd'],
    ['read_file', 'Listed files', [null, { text: 7 }]]
  ])('says what a result of %s came to: %s', (tool, words, summary) => {
    expect(said(tool, {}, { output: { text: '', summary } })).toBe(words);
  });

  it('does not call a check good that an earlier version stored', () => {
    expect(said('verify_notebook', {}, { output: { ok: false, cells: [] } })).toBe(
      'Checked the notebook (failed)'
    );
  });

  it('says what a check of the notebook would do, and which cell it is at', () => {
    const asked = { state: 'approval-requested', approval: { id: 'a' }, output: undefined };
    expect(said('verify_notebook', {}, asked)).toContain('Run a copy of the notebook from the top');
    const running = { output: { text: '', running: 'c3' }, preliminary: true };
    expect(said('verify_notebook', {}, running)).toBe('Checking the notebook, cell 3…');
  });

  it('says what is happening while it happens', () => {
    const running = { state: 'input-available', output: undefined };
    expect(said('run_cell', { cell_id: 'b2' }, running)).toBe('Running cell 2…');
    expect(said('create_cell', undefined!, { state: 'input-streaming' })).toBe('Adding a cell…');
  });

  it('does not say that a call runs which stands behind a question', () => {
    const call = {
      type: 'dynamic-tool',
      toolCallId: 'toolu_1',
      toolName: 'run_cell',
      input: { cell_id: 'b2' },
      state: 'input-available'
    } as CallPart;
    expect(describeCall(call, [], locate, tools, trans, { held: true }).text).toBe('Run cell 2');
    expect(describeCall(call, [], locate, tools, trans).text).toBe('Running cell 2…');
  });

  it.each([
    ['Ran cell 2 (1.2 s)', [['b2', 'ok', 1.24]]],
    [
      'Ran cells 2–3 (error in cell 3, 1 min 5 s)',
      [
        ['b2', 'ok', 60],
        ['c3', 'error', 5]
      ]
    ],
    [
      'Ran cells 2–3 (still running in cell 3)',
      [
        ['b2', 'ok', 0],
        ['c3', 'running', 0]
      ]
    ],
    ['Run cell 2 (queued)', [['b2', 'queued', 0]]],
    ['Running cell 2 (still running)', [['b2', 'running', 0]]]
  ])('says what became of runs: %s', (words, runs) => {
    const cells = runs.map(([cell_id, status, seconds]) => ({
      cell_id,
      status,
      seconds,
      outputs: []
    }));
    expect(said('run_cells', { cell_ids: ['b2'] }, { output: { text: '', cells } })).toBe(words);
  });

  it('never says that something was done which was refused or failed', () => {
    expect(said('run_cell', { cell_id: 'b2' }, { state: 'output-denied' })).toBe(
      'Run cell 2 (denied)'
    );
    expect(said('update_cell', { cell_id: 'b2' }, { state: 'output-error' })).toBe(
      'Edit cell 2 (failed)'
    );
  });

  it('names an added cell by its own place', () => {
    const change = { cell_id: 'd4', kind: 'insert', before: null } as IChange;
    expect(said('create_cell', { after: 'b2' }, {}, [change])).toBe('Cell 4 added');
  });

  it('names a deleted cell by the place that it had', () => {
    const change = { cell_id: 'x9', kind: 'delete', before: { index: 2 }, after: null };
    expect(said('delete_cell', { cell_id: 'x9' }, {}, [change as IChange])).toBe('Cell 3 deleted');
  });
});

describe('the notebook', () => {
  const call = (tool: string, input: object, rest: object = {}): string => {
    const part = {
      type: 'dynamic-tool',
      toolName: tool,
      input,
      state: 'output-available',
      ...rest
    };
    return describeCall(part as CallPart, [], locate, tools, trans, { notebook: 'a\u202e.ipynb' })
      .text;
  };

  it.each([
    ['update_cell', { cell_id: 'b2' }, 'Cell 2 edited in a⟨U+202E⟩.ipynb'],
    ['create_cell', { after: 'b2' }, 'A cell added in a⟨U+202E⟩.ipynb'],
    ['run_cells', {}, 'Ran all cells in a⟨U+202E⟩.ipynb'],
    ['get_notebook_state', {}, 'Read a⟨U+202E⟩.ipynb'],
    ['verify_notebook', {}, 'Checked a⟨U+202E⟩.ipynb'],
    ['create_notebook', { path: 'b.ipynb' }, 'Created b.ipynb'],
    ['read_file', { path: 'b.csv' }, 'Read b.csv']
  ])('is named in what %s did with %j', (tool, input, words) => {
    expect(call(tool, input)).toBe(words);
  });

  it('is not the only one that a question is about', () => {
    const ask = (id: string, tool: string, notebook: string): IApproval => ({
      id,
      call_id: id,
      tool,
      input: { cell_id: 'b2' },
      notebook,
      cell_id: 'b2',
      expires: ''
    });
    const edit = ask('1', 'edit_cells', 'a.ipynb');
    const others = [ask('2', 'run_cells', 'b.ipynb'), ask('3', 'run_cells', 'a.ipynb')];
    const words = (...approvals: IApproval[]): string =>
      describeQuestions(approvals, locate, tools, trans);
    expect(words(edit, others[1])).toBe('Edit and run cell 2');
    expect(words(edit, others[0])).toBe('Edit 2 notebooks and run'); // two cells of one id
    const run = { ...ask('4', 'edit_cells', 'b.ipynb'), input: { cell_id: 'b2', run: true } };
    expect(words(edit, run)).toBe('Edit 2 notebooks and run');
    expect(words(edit, ask('4', 'edit_cells', 'b.ipynb'))).toBe('Edit 2 notebooks');
  });
});

describe('duration', () => {
  it('is short for short ones', () => {
    expect([0.04, 9.96, 12.4, 75].map(seconds => duration(seconds, trans))).toEqual([
      '',
      '10.0 s',
      '12 s',
      '1 min 15 s'
    ]);
  });
});

describe('endOfRun', () => {
  const ended = { run_id: 'r', notebook: 'a.ipynb', cell_id: 'c3', status: 'ok', seconds: 302 };

  it.each([
    [{}, 'Cell 3 finished: ok, 5 min 2 s'],
    [{ status: 'error', seconds: 4.2 }, 'Cell 3 finished: error, 4.2 s'],
    [{ cell_id: 'gone' }, 'A cell finished: ok, 5 min 2 s'],
    [{ cell_id: null, status: 'died', seconds: 0 }, 'A run finished: the kernel died']
  ])('says which run ended, and how: %j', (rest, words) => {
    expect(endOfRun({ ...ended, ...rest } as IEndedRun, locate, trans)).toBe(words);
  });
});

describe('currentCall', () => {
  const part = (toolCallId: string, state: string): CallPart =>
    ({ type: 'dynamic-tool', toolName: 'run_cell', toolCallId, state }) as CallPart;

  it('is the one that is being written, then one after the other', () => {
    const [done, first] = [part('1', 'output-available'), part('2', 'input-available')];
    const last = part('3', 'input-streaming');
    expect(currentCall([done, first, last])).toBe(last);
    expect(currentCall([done, first, part('3', 'input-available')])).toBe(first);
    expect(currentCall([done])).toBeUndefined();
  });
});
