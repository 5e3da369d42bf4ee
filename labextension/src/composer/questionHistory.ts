import type { Draft } from './draft';

const MAX_QUESTIONS = 50;

/** What was asked before, to be gone through as in a terminal. */
export class QuestionHistory {
  constructor(private readonly _draft: Draft) {}

  /** The newest last. */
  asked: readonly string[] = [];

  add(text: string): void {
    this.asked = [...this.asked.filter(other => other !== text), text].slice(-MAX_QUESTIONS);
    this._place = null;
  }

  /**
   * Write again what was asked before (-1) or after (1) what is drafted; false where there is nothing, or
   * where what is drafted is the user's own.
   *
   * @param here - What was asked in the conversation in front.
   */
  go(step: number, here: readonly string[]): boolean {
    const asked = [...new Set([...this.asked, ...here])];
    const { text } = this._draft.state;
    const place = text ? this._place : asked.length;
    if (place === null || (text && asked[place] !== text)) {
      return false;
    }
    const next = place + step;
    if (next < 0 || next > asked.length) {
      return false;
    }
    this._place = next < asked.length ? next : null;
    this._draft.setText(asked[next] ?? '');
    return true;
  }

  /** The place in what was asked that is drafted again. */
  private _place: number | null = null;
}
