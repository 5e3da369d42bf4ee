import type { Draft } from './draft';

const MAX_QUESTIONS = 50;

/** Browses earlier questions in a field, as in a terminal. */
export class Recall {
  /**
   * The next text of the field: the previous (-1) or next (1) question; null if there isn't one, or if `text` is the
   * user's own.
   */
  go(step: number, text: string, asked: readonly string[]): string | null {
    const place = text ? this._place : asked.length;
    if (place === null || (text && asked[place] !== text)) {
      return null;
    }
    const next = place + step;
    if (next < 0 || next > asked.length) {
      return null;
    }
    this._place = next < asked.length ? next : null;
    return asked[next] ?? '';
  }

  /** The index of the recalled question. */
  private _place: number | null = null;
}

/** Earlier questions, to browse in the draft. */
export class QuestionHistory {
  constructor(private readonly _draft: Draft) {}

  /** Newest last. */
  asked: readonly string[] = [];

  add(text: string): void {
    this.asked = [...this.asked.filter(other => other !== text), text].slice(-MAX_QUESTIONS);
    this._recall = new Recall();
  }

  /**
   * Replace the draft by the previous (-1) or next (1) question; false if there isn't any, or if the draft is the
   * user's own text.
   *
   * @param here - The questions of the conversation in front.
   */
  go(step: number, here: readonly string[]): boolean {
    const asked = [...new Set([...this.asked, ...here])];
    const text = this._recall.go(step, this._draft.state.text, asked);
    if (text !== null) {
      this._draft.setText(text);
    }
    return text !== null;
  }

  private _recall = new Recall();
}
