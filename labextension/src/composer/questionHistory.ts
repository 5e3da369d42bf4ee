import type { Draft } from './draft';

const MAX_QUESTIONS = 50;

/** Earlier questions, to browse as in a terminal. */
export class QuestionHistory {
  constructor(private readonly _draft: Draft) {}

  /** The newest last. */
  asked: readonly string[] = [];

  add(text: string): void {
    this.asked = [...this.asked.filter(other => other !== text), text].slice(-MAX_QUESTIONS);
    this._place = null;
  }

  /**
   * Replace the draft by the previous (-1) or next (1) question; false if there is none, or if the draft is the
   * user's own text.
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

  /** The index of the question that is in the draft again. */
  private _place: number | null = null;
}
