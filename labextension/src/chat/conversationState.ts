import type { IFailure } from '../api/failure';
import type { AgentMessage, IChange, IUndone } from '../api/protocol';
import type { Progress } from './conversationEvents';

/** A conversation at one moment; never changed in place. */
export interface IConversationState {
  readonly title: string | null;
  readonly messages: readonly AgentMessage[];
  readonly progress: Progress;
  /** False while a turn is running and its stream is being reconnected. */
  readonly connected: boolean;
  /** Why the last request failed. */
  readonly failure: IFailure | null;
  /** The changes, with their current state, of each turn for which they have been read. */
  readonly changes: Readonly<Record<string, readonly IChange[]>>;
  /** The results of undoing turns on this page. */
  readonly undone: Readonly<Record<string, IUndone>>;
}

/** A new conversation. */
export const EMPTY: IConversationState = {
  title: null,
  messages: [],
  progress: 'idle',
  connected: true,
  failure: null,
  changes: {},
  undone: {}
};
