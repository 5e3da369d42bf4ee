import type { AgentMessage, CallPart } from '../../api/protocol';

/** A cell that the assistant is writing, or the position of a new one. */
export interface IWriting {
  notebook: string;
  /** The cell; for a new one, the neighbour that the call names, or null. */
  cell_id: string | null;
  where: 'in' | 'above' | 'below';
}

interface IWriteInput {
  notebook?: string;
  edits?: ({ cell_id?: string } | undefined)[];
  after?: string;
  before?: string;
}

/** Where the assistant is currently writing: the calls of an answer whose text is still streaming. */
export function writingPlaces(message: AgentMessage | undefined): IWriting[] {
  const { metadata, parts = [] } = message ?? {};
  const inFront = metadata?.notebook;
  const asked = parts.some(part => 'state' in part && part.state === 'approval-requested');
  return parts.flatMap((part): IWriting[] => {
    if (asked || part.type !== 'dynamic-tool' || !isWriting(part)) {
      return [];
    }
    const input = (part.input ?? {}) as IWriteInput;
    const notebook = input.notebook ?? inFront;
    if (!notebook) {
      return [];
    }
    if (part.toolName === 'edit_cells') {
      const { cell_id } = (Array.isArray(input.edits) && input.edits.at(-1)) || {};
      return cell_id ? [{ notebook, cell_id, where: 'in' }] : [];
    }
    return input.before
      ? [{ notebook, cell_id: input.before, where: 'above' }]
      : [{ notebook, cell_id: input.after ?? null, where: 'below' }];
  });
}

function isWriting({ state, toolName }: CallPart): boolean {
  return (
    (toolName === 'edit_cells' || toolName === 'create_cells') &&
    (state === 'input-streaming' || state === 'input-available')
  );
}
