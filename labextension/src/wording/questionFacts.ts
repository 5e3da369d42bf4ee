import type { TranslationBundle } from '@jupyterlab/translation';
import type { IApproval, ICellDiff } from '../api/protocol';
import { legible } from './oddCharacters';
import { mcpTool } from './mcpTools';
import { translated } from '../api/tools';
import type { Locate } from './cellNames';
import type { FindTool } from './toolPhrases';
import { wordsFor } from './toolPhrases';

/** "Markdown cell", "Kernel “python3”, all variables are lost": what the words for the call do not say. */
export function factsOf(
  { tool, input, cell_type, clusters, kernel, server, server_tool }: IApproval,
  tools: FindTool,
  trans: TranslationBundle
): string {
  if (server) {
    return legible(trans.__('The MCP server “%1” gets this for “%2”', server, server_tool ?? tool));
  }
  if (clusters?.length) {
    return legible(trans.__('Starts a cluster job (%1)', clusters.join(', ')));
  }
  if (tool === 'create_notebook') {
    const name = input.kernel_name;
    return typeof name === 'string'
      ? legible(trans.__('With the kernel “%1”', name))
      : trans.__('With the default kernel');
  }
  const caution = wordsFor(tools(tool), input)?.caution;
  const facts = [
    cell_type && kindOfCell(cell_type, trans),
    kernel && legible(trans.__('Kernel “%1”', kernel)),
    caution && translated(caution, trans)
  ];
  return facts.filter(Boolean).join(', ');
}

/** "Run any cell in n.ipynb, in this conversation, until the kernel restarts": the scope of a longer approval. */
export function scopeOf(
  approvals: readonly IApproval[],
  tools: FindTool,
  trans: TranslationBundle
): string {
  const names = new Set(approvals.flatMap(({ notebook }) => notebook ?? []));
  const where = [...names].join(', ');
  const [runs, others] = [true, false].map(wanted => {
    const chosen = approvals.filter(approval => runsCode(approval, tools) === wanted);
    return [...new Set(chosen.map(approval => actOf(approval, tools, trans)))].join(', ');
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
export function exceptionOf(
  approvals: readonly IApproval[],
  tools: FindTool,
  trans: TranslationBundle
): string {
  return approvals.some(approval => runsCode(approval, tools))
    ? trans.__('Code with ! or % always needs approval.')
    : '';
}

/** Whether code would run in the notebook's own kernel; some edits also run the edited cells. */
function runsCode({ tool, input, server }: IApproval, tools: FindTool): boolean {
  return !server && (tools(tool)?.in_kernel === true || input.run === true);
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

function actOf({ tool, input }: IApproval, tools: FindTool, trans: TranslationBundle): string {
  const remote = mcpTool(tool);
  if (remote) {
    return trans.__('call %1 on %2, with any input,', remote.tool, remote.server);
  }
  const { scope } = wordsFor(tools(tool), input) ?? {};
  return scope ? translated(scope, trans) : trans.__('use %1', tool);
}
