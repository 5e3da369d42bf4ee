import type { TranslationBundle } from '@jupyterlab/translation';
import type { IApproval } from '../api/protocol';
import { nameOf } from './callDescriptions';
import type { Locate } from './cellNames';
import { listOf } from './cellNames';
import { legible } from './oddCharacters';
import type { IInput } from './toolPhrases';
import { phrase } from './toolPhrases';

/** "Run cell 7": the proposed action; invisible characters are spelt out. */
export function describeQuestion(
  { tool, input, cell_id }: IApproval,
  locate: Locate,
  trans: TranslationBundle
): string {
  const cell = nameOf(cell_id, undefined, locate, trans);
  const [todo] = phrase({ tool, input, runs: [], cell, notebook: null, locate, trans });
  return legible(todo);
}

/** "Edit cell 4 and run all": the proposed actions of all approvals of one question. */
export function describeQuestions(
  approvals: readonly IApproval[],
  locate: Locate,
  trans: TranslationBundle
): string {
  const [first] = approvals;
  if (approvals.length === 1) {
    return describeQuestion(first, locate, trans);
  }
  const notebooks = new Set(approvals.flatMap(({ notebook }) => notebook ?? []));
  const runs = approvals.some(approval => !isEdit(approval));
  if (notebooks.size > 1) {
    return runs
      ? trans.__('Edit %1 notebooks and run', notebooks.size)
      : trans.__('Edit %1 notebooks', notebooks.size);
  }
  const cells = new Set(approvals.map(({ cell_id }) => cell_id));
  if (runs && cells.size === 1 && approvals.some(isEdit) && first.cell_id) {
    return trans.__('Edit and run %1', nameOf(first.cell_id, undefined, locate, trans));
  }
  const acts = actsOf(approvals, locate, trans);
  const last = acts.pop() ?? '';
  const words = acts.length ? trans.__('%1 and %2', acts.join(', '), last) : last;
  return legible(words.charAt(0).toLocaleUpperCase() + words.slice(1));
}

/** The actions by kind: "edit cells 2, 4", "add 2 cells", "run all". */
function actsOf(
  approvals: readonly IApproval[],
  locate: Locate,
  trans: TranslationBundle
): string[] {
  const cellsOf = (...tools: string[]): string[] =>
    approvals
      .filter(({ tool }) => tools.includes(tool))
      .flatMap(({ cell_id, edits, input }) => {
        const several = edits?.flatMap(edit => edit.cell_id ?? []) ?? [];
        const { cell_ids = [] } = input as IInput;
        return several.length ? several : (cell_id ?? cell_ids);
      });
  const edited = cellsOf('edit_cells');
  const deleted = cellsOf('delete_cell');
  const moved = cellsOf('move_cell');
  const ran = cellsOf('run_cells');
  const added = approvals.reduce((sum, { tool, edits }) => sum + addedBy(tool, edits?.length), 0);
  const all = approvals.some(({ tool, input }) => tool === 'run_cells' && !input.cell_ids);
  const named = approvals.filter(({ tool }) => !COUNTED.includes(tool));
  const found = [
    edited.length && trans.__('edit %1', listOf(edited, locate, trans)),
    added && trans._n('add a cell', 'add %1 cells', added),
    deleted.length && trans.__('delete %1', listOf(deleted, locate, trans)),
    moved.length && trans.__('move %1', listOf(moved, locate, trans)),
    ...named.map(approval => lowerFirst(describeQuestion(approval, locate, trans))),
    all ? trans.__('run all') : ran.length && trans.__('run %1', listOf(ran, locate, trans))
  ];
  return found.filter(words => typeof words === 'string');
}

/** Tools whose calls are summarized together. */
const COUNTED = ['create_cells', 'edit_cells', 'delete_cell', 'move_cell', 'run_cells'];

function addedBy(tool: string, edits = 1): number {
  return tool === 'create_cells' ? edits : 0;
}

function lowerFirst(words: string): string {
  return words.charAt(0).toLocaleLowerCase() + words.slice(1);
}

/** Tools that change cells, some of which run them afterwards. */
const EDITS = [
  'create_cells',
  'edit_cells',
  'delete_cell',
  'move_cell',
  'clear_outputs',
  'create_notebook'
];

/** Whether a question is about changing cells, not about running something. */
export function isEdit({ tool }: IApproval): boolean {
  return EDITS.includes(tool);
}
