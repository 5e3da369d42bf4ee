import { inTab } from '../storage';
import { Store } from '../store';

const STORAGE_KEY = 'jupyter-agent:question-edits';

/** An earlier question that is being edited. */
export interface IQuestionEdit {
  readonly text: string;
  /** Whether to undo the changes made since. */
  readonly undo: boolean;
}

/** The earlier questions that are being edited, by the ids of their messages. They survive a reload. */
export class QuestionEdits extends Store<Readonly<Record<string, IQuestionEdit>>> {
  constructor() {
    super(inTab.get<Readonly<Record<string, IQuestionEdit>>>(STORAGE_KEY) ?? {});
  }

  write(id: string, edit: IQuestionEdit): void {
    this.set({ ...this.state, [id]: edit });
  }

  /** It was sent or cancelled. */
  end(id: string): void {
    const others = Object.entries(this.state).filter(([other]) => other !== id);
    this.set(Object.fromEntries(others));
  }

  protected override set(state: Readonly<Record<string, IQuestionEdit>>): void {
    inTab.set(STORAGE_KEY, Object.keys(state).length ? state : null);
    super.set(state);
  }
}
