import { Notification } from '@jupyterlab/apputils';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Assistant } from '../../chat/assistant';
import type { ChangeWalk } from '../changeWalk';
import type { ReviewActions } from '../reviewActions';
import type { Reviews } from '../reviews';
import type { NotebookMarks } from './notebookMarks';
import { writingPlaces } from './writingPlaces';

interface IMarksOptions {
  tracker: INotebookTracker;
  assistant: Assistant;
  reviews: Reviews;
  walk: ChangeWalk;
  actions: ReviewActions;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
}

/**
 * Marks the assistant's changes in open notebooks, and the place of its writing. The code of the marks is loaded when
 * there is something to mark.
 */
export class Marks {
  constructor(private readonly _options: IMarksOptions) {
    const { tracker, assistant, reviews } = _options;
    tracker.widgetAdded.connect((_, panel) => this._add(panel));
    reviews.changed.connect(this._loadIfNeeded, this);
    assistant.happened.connect(this._markWriting, this);
  }

  /** Whether diffs are shown by default, or only their bars. */
  set open(open: boolean) {
    this._isOpen = open;
    this._marks.forEach(marks => (marks.open = open));
  }

  private _loadIfNeeded(): void {
    const waiting = [...this._options.reviews.state.values()].some(({ cells }) => cells.length);
    if (!this._Marks && (waiting || this._writing.length)) {
      void this._load();
    }
  }

  private async _load(): Promise<void> {
    const loaded = await import('./notebookMarks').catch(() => null);
    if (!loaded) {
      this._sayNotLoaded();
    } else if (!this._Marks) {
      this._Marks = loaded.NotebookMarks;
      this._options.tracker.forEach(panel => this._add(panel));
    }
  }

  /** Once: the console has each failure. */
  private _sayNotLoaded(): void {
    if (!this._hasFailed) {
      this._hasFailed = true;
      const { trans } = this._options;
      Notification.error(
        trans.__(
          "The assistant's changes cannot be shown in the cells. If it was updated, reload this page."
        ),
        { autoClose: false }
      );
    }
  }

  private _add(panel: NotebookPanel): void {
    if (!this._Marks) {
      return;
    }
    const marks = new this._Marks(panel, this._options);
    marks.open = this._isOpen;
    marks.writing = this._writing;
    this._marks.add(marks);
    panel.disposed.connect(() => this._marks.delete(marks));
  }

  private _markWriting({ state: { conversation } }: Assistant): void {
    this._writing = conversation.busy ? writingPlaces(conversation.state.messages.at(-1)) : [];
    this._loadIfNeeded();
    for (const marks of this._marks) {
      marks.writing = this._writing;
    }
  }

  private _Marks: typeof NotebookMarks | null = null;
  private _writing: ReturnType<typeof writingPlaces> = [];
  private _isOpen = true;
  private _hasFailed = false;
  private readonly _marks = new Set<NotebookMarks>();
}
