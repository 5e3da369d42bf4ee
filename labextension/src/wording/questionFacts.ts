import type { TranslationBundle } from '@jupyterlab/translation';
import type { IApproval } from '../api/protocol';
import { legible } from './oddCharacters';
import type { Locate } from './toolPhrases';

/** "Markdown cell, below cell 3": type, place and kernel, as far as a change has them. */
export function factsOf(
  { tool, input, cell_type }: IApproval,
  locate: Locate,
  trans: TranslationBundle
): string {
  const type = cell_type ? kindOfCell(cell_type, trans) : '';
  switch (tool) {
    case 'create_cell':
      return trans.__('%1, %2', type, placeOf(input, locate, trans));
    case 'move_cell':
      return trans.__('To a place %1', placeOf(input, locate, trans));
    case 'create_notebook': {
      const name = input.kernel_name;
      return typeof name === 'string'
        ? legible(trans.__('With the kernel “%1”', name))
        : trans.__('With the default kernel');
    }
    default:
      return type;
  }
}

/** "Run any cell of n.ipynb in this conversation, until its kernel restarts": all that "always" allows. */
export function scopeOf(approvals: readonly IApproval[], trans: TranslationBundle): string {
  const acts = new Set(approvals.map(({ tool }) => actOf(tool, trans)));
  const names = new Set(approvals.flatMap(({ notebook }) => notebook ?? []));
  const what = [...acts].join(trans.__(', '));
  const scope = trans.__('Always: %1 in %2, in this conversation', what, [...names].join(', '));
  const runs = approvals.some(({ tool }) => ['run_cell', 'run_cells'].includes(tool));
  return legible(
    runs
      ? trans.__(
          '%1, until its kernel restarts. Code with ! or % needs an answer each time.',
          scope
        )
      : trans.__('%1.', scope)
  );
}

function kindOfCell(type: 'code' | 'markdown' | 'raw', trans: TranslationBundle): string {
  return {
    code: trans.__('Code cell'),
    markdown: trans.__('Markdown cell'),
    raw: trans.__('Raw cell')
  }[type];
}

/** Where a cell would be; one that is not in sight is named by its id. */
function placeOf(
  { after, before }: Record<string, unknown>,
  locate: Locate,
  trans: TranslationBundle
): string {
  const name = (id: string): string => String(locate(id) ?? legible(`“${id}”`));
  if (typeof after === 'string') {
    return trans.__('below cell %1', name(after));
  }
  return typeof before === 'string'
    ? trans.__('above cell %1', name(before))
    : trans.__('at the end of the notebook');
}

function actOf(tool: string, trans: TranslationBundle): string {
  const acts: Record<string, string> = {
    create_cell: trans.__('add any cell'),
    update_cell: trans.__('edit any cell'),
    delete_cell: trans.__('delete any cell'),
    move_cell: trans.__('move any cell'),
    run_cell: trans.__('run any cell, whatever its code'),
    run_cells: trans.__('run any cells together, whatever their code'),
    verify_notebook: trans.__('run copies from the top'),
    restart_kernel: trans.__('restart the kernel'),
    interrupt_kernel: trans.__('interrupt the kernel')
  };
  return acts[tool] ?? trans.__('use %1', tool);
}
