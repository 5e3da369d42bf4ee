import type { TranslationBundle } from '@jupyterlab/translation';
import type { IApproval } from '../api/protocol';
import type { Locate } from './cellNames';
import { listOf } from './cellNames';
import { legible } from './oddCharacters';
import type { FindTool, Input } from './toolPhrases';
import { capitalize, countOf, namedCells, phrase, wordsFor } from './toolPhrases';

/** "Run cell 7": the proposed action; invisible characters are spelt out. */
export function describeQuestion(
  approval: IApproval,
  locate: Locate,
  tools: FindTool,
  trans: TranslationBundle
): string {
  const { tool, input } = approval;
  const cells = cellsOf(approval);
  const filling = { input, changed: cells, ran: cells, isComplete: true };
  const [todo] = phrase(tool, filling, locate, tools, trans);
  return legible(todo);
}

/** "Edit cell 4 and run all": the proposed actions of all approvals of one question. */
export function describeQuestions(
  approvals: readonly IApproval[],
  locate: Locate,
  tools: FindTool,
  trans: TranslationBundle
): string {
  const [first] = approvals;
  if (approvals.length === 1) {
    return describeQuestion(first, locate, tools, trans);
  }
  const notebooks = new Set(approvals.flatMap(({ notebook }) => notebook ?? []));
  const edits = approvals.some(approval => isEdit(approval, tools));
  const runs = approvals.some(approval => !isEdit(approval, tools) || approval.input.run === true);
  if (notebooks.size > 1) {
    return runs
      ? trans.__('Edit %1 notebooks and run', notebooks.size)
      : trans.__('Edit %1 notebooks', notebooks.size);
  }
  const cells = new Set(approvals.map(({ cell_id }) => cell_id));
  if (runs && cells.size === 1 && edits && first.cell_id) {
    return trans.__('Edit and run %1', listOf([first.cell_id], locate, trans));
  }
  const acts = actsOf(approvals, locate, tools, trans);
  const last = acts.pop() ?? '';
  const words = acts.length ? trans.__('%1 and %2', acts.join(', '), last) : last;
  return legible(capitalize(words));
}

/** The actions by their words: "edit cells 2, 4", "add 2 cells", "run all cells". */
function actsOf(
  approvals: readonly IApproval[],
  locate: Locate,
  tools: FindTool,
  trans: TranslationBundle
): string[] {
  const alike = Map.groupBy(approvals, ({ tool, input }) => {
    const { counts = '' } = wordsFor(tools(tool), input) ?? {};
    return JSON.stringify([tool, { ...withoutCells(input), [counts]: null }]);
  });
  return [...alike.values()].map(group => {
    const words = wordsFor(tools(group[0].tool), group[0].input);
    const count = group.reduce((sum, { input }) => sum + countOf(words, input), 0);
    const cells = group.map(cellsOf);
    const changed = cells.every(({ length }) => length) ? cells.flat() : []; // without any, it is about all
    const { input } = group[0];
    const shared = group.length > 1 ? withoutCells(input) : input;
    const filling = { input: shared, changed, ran: changed, count, isComplete: group.length === 1 };
    const [todo] = phrase(group[0].tool, filling, locate, tools, trans);
    return todo.charAt(0).toLocaleLowerCase() + todo.slice(1);
  });
}

/** What several calls of a tool with the same words have in common. */
function withoutCells(input: Input): Input {
  return Object.fromEntries(Object.entries(input).filter(([field]) => !OF_CELLS.includes(field)));
}

const OF_CELLS = ['cell_id', 'cell_ids', 'edits', 'after', 'before'];

function cellsOf({ input, cell_id }: IApproval): string[] {
  const named = namedCells(input);
  return named.length || !cell_id ? named : [cell_id];
}

/** Whether a question is about changing cells, not about running something. */
export function isEdit({ tool }: IApproval, tools: FindTool): boolean {
  return tools(tool)?.effect === 'edit';
}
