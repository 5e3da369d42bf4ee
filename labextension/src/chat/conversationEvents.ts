import type { AgentMessage, TurnState } from '../api/protocol';
import { pendingApprovals } from './message';

/** The state of the last turn; `idle` if there wasn't any. */
export type Progress = TurnState | 'idle';

/**
 * An event in the conversation in front. One change of its state may emit several, in this order:
 *
 * - `opened`: another conversation came to the front
 * - `sent`: the user sent a question, which is in the conversation now
 * - `updated`: its state changed
 * - `changesArrived`: the last message reports more changes to notebooks than before
 * - `asked`: the turn waits for an answer to a further question
 * - `outcomeKnown`: it became known how the last turn ended, even if it ended while no page was open
 * - `turnStarted`: a turn runs, whoever started it
 * - `turnEnded`: the turn no longer runs, and its outcome is known
 */
export type ConversationEvent =
  | 'opened'
  | 'sent'
  | 'updated'
  | 'changesArrived'
  | 'asked'
  | 'outcomeKnown'
  | 'turnStarted'
  | 'turnEnded';

/** The part of a conversation's state that events are derived from. */
interface IMoment {
  readonly messages: readonly AgentMessage[];
  readonly progress: Progress;
}

/** The events between two moments of a conversation. */
export function eventsBetween(before: IMoment, now: IMoment): ConversationEvent[] {
  const found: ConversationEvent[] = ['updated'];
  if (reportedChanges(now) > reportedChanges(before)) {
    found.push('changesArrived');
  }
  if (openQuestions(now) > openQuestions(before)) {
    found.push('asked');
  }
  if (now.progress !== before.progress) {
    if (isOver(now)) {
      found.push('outcomeKnown');
    }
    if (now.progress === 'running') {
      found.push('turnStarted');
    } else if (before.progress === 'running') {
      found.push('turnEnded');
    }
  } else if (isOver(now) && turnOf(now) && turnOf(now) !== turnOf(before)) {
    found.push('outcomeKnown', 'turnEnded'); // a turn that another client started, too short to be seen running
  }
  return found;
}

function isOver({ progress }: IMoment): boolean {
  return progress !== 'running' && progress !== 'idle';
}

function turnOf({ messages }: IMoment): string | undefined {
  return messages.at(-1)?.metadata?.turnId;
}

function reportedChanges({ messages }: IMoment): number {
  return messages.at(-1)?.parts.filter(({ type }) => type === 'data-changes').length ?? 0;
}

function openQuestions({ messages, progress }: IMoment): number {
  return progress === 'running' ? pendingApprovals(messages.at(-1)).length : 0;
}
