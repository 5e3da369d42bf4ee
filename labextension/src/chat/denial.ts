import type { IApproval } from '../api/protocol';
import { Store } from '../store';
import type { Assistant } from './assistant';

/** The approvals that are answered together, in the order in which they are asked for. */
export function questionsOf(approvals: readonly IApproval[]): IApproval[][] {
  return [...Map.groupBy(approvals, ({ group, id }) => group ?? id).values()];
}

/**
 * Whether the draft is the reason to deny the open question: only if it was started after the question appeared. A
 * draft started before is a follow-up.
 */
export class Denial extends Store<boolean> {
  constructor(private readonly _assistant: Assistant) {
    super(false);
    _assistant.happened.connect(this._update, this);
    _assistant.draft.changed.connect(this._update, this);
  }

  /** Deny the question, with the draft as the reason if it is one. */
  deny(question: readonly IApproval[], written?: string): void {
    const { draft, state } = this._assistant;
    const reason = (written ?? (this.state ? draft.state.text : '')).trim() || undefined;
    if (this.state) {
      draft.clear();
    }
    void state.conversation.answer(question.map(({ id }) => ({ id, approved: false, reason })));
  }

  /** The open question; empty if there isn't any. */
  get question(): readonly IApproval[] {
    return questionsOf(this._assistant.state.conversation.approvals)[0] ?? [];
  }

  private _update(): void {
    const { draft } = this._assistant;
    const [first] = this.question;
    const asked = first ? (first.group ?? first.id) : '';
    const isEmpty = !draft.state.text.trim();
    const isReason = asked !== '' && (isEmpty || (this.state && asked === this._asked));
    this._asked = asked;
    if (isReason !== this.state) {
      this.set(isReason);
    }
  }

  private _asked = '';
}
