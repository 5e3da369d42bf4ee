import type { AgentMessage, IChange } from '../api/protocol';
import type { Move } from '../bridge/renames';
import { moveAbout } from '../bridge/renames';

interface IShown {
  readonly messages: readonly AgentMessage[];
  readonly changes: Readonly<Record<string, readonly IChange[]>>;
}

/** A message after a rename. Texts by and for the model stay the same. */
function moveMessage(message: AgentMessage, move: Move): AgentMessage {
  const { metadata, parts } = message;
  const ended = metadata?.ended;
  return {
    ...message,
    metadata: metadata && {
      ...moveAbout(metadata, move),
      ...(ended && { ended: moveAbout(ended, move) })
    },
    parts: parts.map(part =>
      part.type === 'data-changes'
        ? {
            ...part,
            data: { ...moveAbout(part.data, move), changes: moveAll(part.data.changes, move) }
          }
        : part
    )
  };
}

/** The messages and changes of a conversation, after a rename. */
export function moveShown({ messages, changes }: IShown, move: Move): IShown {
  const turns = Object.entries(changes);
  return {
    messages: messages.map(message => moveMessage(message, move)),
    changes: Object.fromEntries(turns.map(([turn, own]) => [turn, moveAll(own, move)]))
  };
}

function moveAll(changes: readonly IChange[], move: Move): IChange[] {
  return changes.map(change => moveAbout(change, move));
}
