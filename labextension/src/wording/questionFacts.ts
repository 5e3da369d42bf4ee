import type { TranslationBundle } from '@jupyterlab/translation';
import type { IApproval, ICellDiff } from '../api/protocol';
import { legible } from './oddCharacters';
import { mcpTool } from './mcpTools';
import { translated } from '../api/tools';
import type { Locate } from './cellNames';
import type { FindTool } from './toolPhrases';
import { capitalize, fillAll, runsCode, wordsFor } from './toolPhrases';

/** "Markdown cell, kernel “python3”": what a person has to know besides the words, the code and the diff. */
export function factsOf({ cell_type, facts = [] }: IApproval, trans: TranslationBundle): string {
  const words = [...(cell_type ? [kindOfCell(cell_type, trans)] : []), fillAll(facts, trans)];
  const text = legible(words.filter(Boolean).join(', '));
  return capitalize(text);
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
    const chosen = approvals.filter(({ tool, input }) => runsCode(tool, input, tools) === wanted);
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
  return capitalize(words);
}

/** The exceptions from the scope, for questions about code. */
export function exceptionOf(
  approvals: readonly IApproval[],
  tools: FindTool,
  trans: TranslationBundle
): string {
  return approvals.some(({ tool, input }) => runsCode(tool, input, tools))
    ? trans.__('Code with ! or % always needs approval.')
    : '';
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
