import type { AgentMessage } from '../api/protocol';
import type { IConversationState } from '../chat/conversationState';
import type { IQueueState } from '../chat/queue';

/**
 * The progress of a question:
 *
 * - `queued`: it is sent when the turn before it has ended
 * - `held`: it waits for the user, since the turn before it was stopped or failed
 * - `working`: its turn is running
 * - `refused`: the server has not accepted it
 * - `failed`, `stopped`: its turn ended that way
 * - `changed`: its turn changed notebooks
 * - `answered`: its turn ended without changes
 * - `gone`: it is not in this conversation
 */
export type AskedState =
  | 'queued'
  | 'held'
  | 'working'
  | 'refused'
  | 'failed'
  | 'stopped'
  | 'changed'
  | 'answered'
  | 'gone';

/** The progress of the question with this id, in the conversation in front. */
export function askedState(
  id: string,
  { failure, messages, progress }: Pick<IConversationState, 'failure' | 'messages' | 'progress'>,
  { held, waiting }: IQueueState
): AskedState {
  if (waiting.some(queued => queued.id === id)) {
    return held ? 'held' : 'queued';
  }
  const index = messages.findIndex(message => message.id === id);
  if (index < 0) {
    return 'gone';
  }
  const answer = answerTo(id, messages);
  const isLast = index + (answer ? 2 : 1) === messages.length;
  if (isLast && progress === 'running') {
    return 'working';
  }
  if (isLast && (progress === 'failed' || progress === 'interrupted')) {
    return !answer && failure?.reason !== 'turn' ? 'refused' : 'failed';
  }
  if (isLast && progress === 'stopped') {
    return 'stopped';
  }
  return answer?.parts.some(({ type }) => type === 'data-changes') ? 'changed' : 'answered';
}

/** The answer to the question with this id. */
export function answerTo(id: string, messages: readonly AgentMessage[]): AgentMessage | undefined {
  const next = messages[messages.findIndex(message => message.id === id) + 1];
  return next?.role === 'assistant' ? next : undefined;
}

/** The text of an answer in one line of at most `length` characters. */
export function oneLine(answer: AgentMessage | undefined, length = 300): string {
  const texts = (answer?.parts ?? []).flatMap(part => (part.type === 'text' ? [part.text] : []));
  return (texts.at(-1) ?? '').replace(/\s+/g, ' ').trim().slice(0, length);
}
