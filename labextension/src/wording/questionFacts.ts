import type { TranslationBundle } from '@jupyterlab/translation';
import type { IApproval, ICellDiff } from '../api/protocol';
import { legible } from './oddCharacters';
import { mcpTool } from './mcpTools';
import type { Locate } from './cellNames';

/**
 * "Markdown cell, below cell 3": type, position and kernel, if the change has them; for code whether it starts a
 * cluster job.
 */
export function factsOf(
  { tool, input, cell_type, edits, clusters, kernel, server, server_tool }: IApproval,
  locate: Locate,
  trans: TranslationBundle
): string {
  if (server) {
    return legible(trans.__('The MCP server “%1” gets this for “%2”', server, server_tool ?? tool));
  }
  if (clusters?.length) {
    return legible(trans.__('Starts a cluster job (%1)', clusters.join(', ')));
  }
  const type = cell_type ? kindOfCell(cell_type, trans) : '';
  if (tool === 'create_cells' && edits?.length === 1 && input.run !== true) {
    return trans.__('%1, %2', type, placeOf(input, locate, trans));
  }
  switch (tool) {
    case 'move_cell':
      return trans.__('To a place %1', placeOf(input, locate, trans));
    case 'create_notebook': {
      const name = input.kernel_name;
      return typeof name === 'string'
        ? legible(trans.__('With the kernel “%1”', name))
        : trans.__('With the default kernel');
    }
    default:
      return [type, kernel && legible(trans.__('Kernel “%1”', kernel))].filter(Boolean).join(', ');
  }
}

/** "Run any cell in n.ipynb, in this conversation, until the kernel restarts": the scope of a longer approval. */
export function scopeOf(approvals: readonly IApproval[], trans: TranslationBundle): string {
  const names = new Set(approvals.flatMap(({ notebook }) => notebook ?? []));
  const where = [...names].join(', ');
  const [runs, others] = [true, false].map(wanted => {
    const chosen = approvals.filter(approval => runsCode(approval) === wanted);
    return [...new Set(chosen.map(approval => actOf(approval, trans)))].join(', ');
  });
  const scope = [
    others && trans.__('%1 in %2, in this conversation', others, where),
    runs &&
      trans.__(
        '%1 in %2, whatever its code, in this conversation, until the kernel restarts',
        runs,
        where
      )
  ];
  const words = legible(scope.filter(Boolean).join('; '));
  return words.charAt(0).toLocaleUpperCase() + words.slice(1);
}

/** The exceptions from the scope, for questions about code. */
export function exceptionOf(approvals: readonly IApproval[], trans: TranslationBundle): string {
  return approvals.some(runsCode) ? trans.__('Code with ! or % always needs approval.') : '';
}

/** Tools that run code in the notebook's own kernel. */
const IN_KERNEL = ['run_cells', 'run_code'];

/** Whether code would run in the notebook's own kernel; some edits also run the edited cells. */
function runsCode({ tool, input, server }: IApproval): boolean {
  if (server) {
    return false;
  }
  return IN_KERNEL.includes(tool) || input.run === true;
}

/** "Cell 4", or "New Markdown cell". */
export function nameOfEdit(
  { cell_id, cell_type }: ICellDiff,
  locate: Locate,
  trans: TranslationBundle
): string {
  return cell_id === null
    ? trans.__('New: %1', kindOfCell(cell_type, trans))
    : trans.__('Cell %1', locate(cell_id) ?? legible(`“${cell_id}”`));
}

function kindOfCell(type: 'code' | 'markdown' | 'raw', trans: TranslationBundle): string {
  return {
    code: trans.__('Code cell'),
    markdown: trans.__('Markdown cell'),
    raw: trans.__('Raw cell')
  }[type];
}

/** The position of a cell; a cell that is not open is named by its id. */
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

function actOf({ tool, input }: IApproval, trans: TranslationBundle): string {
  const remote = mcpTool(tool);
  if (remote) {
    return trans.__('call %1 on %2, with any input,', remote.tool, remote.server);
  }
  if (tool === 'create_cells' && input.run === true) {
    return trans.__('add and run any cells');
  }
  if (tool === 'edit_cells' && input.run === true) {
    return trans.__('edit and run any cells');
  }
  const acts: Record<string, string> = {
    create_cells: trans.__('add any cells'),
    edit_cells: trans.__('edit any cells'),
    run_code: trans.__('run any code'),
    delete_cell: trans.__('delete any cell'),
    move_cell: trans.__('move any cell'),
    clear_outputs: trans.__('clear any outputs'),
    run_cells: trans.__('run any cells'),
    verify_notebook: trans.__('run copies from the top'),
    restart_kernel: trans.__('restart the kernel'),
    interrupt_kernel: trans.__('interrupt the kernel')
  };
  return acts[tool] ?? trans.__('use %1', tool);
}
