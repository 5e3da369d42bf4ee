import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { OpenNotebooks } from '../../bridge/openNotebooks';
import type { Assistant } from '../../chat/assistant';
import type { Reviews } from '../reviews';
import type { IMarkServices } from './changeMark';
import { NotebookMarks } from './notebookMarks';
import { ReviewActions } from './reviewActions';
import { writingPlaces } from './writingPlaces';

interface IMarksOptions {
  tracker: INotebookTracker;
  notebooks: OpenNotebooks;
  assistant: Assistant;
  reviews: Reviews;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
}

/** Marks the assistant's changes, and where it is writing, in open notebooks. */
export class Marks {
  constructor(private readonly _options: IMarksOptions) {
    const { tracker, assistant, notebooks, reviews, languages, trans } = _options;
    this._services = { actions: new ReviewActions(reviews, notebooks, trans), languages, trans };
    tracker.widgetAdded.connect((_, panel) => this._add(panel));
    tracker.forEach(panel => this._add(panel));
    assistant.happened.connect(this._markWriting, this);
  }

  private _add(panel: NotebookPanel): void {
    const marks = new NotebookMarks(panel, this._options.reviews, this._services);
    this._marks.add(marks);
    panel.disposed.connect(() => this._marks.delete(marks));
  }

  private _markWriting({ state: { conversation } }: Assistant): void {
    const writing = conversation.busy ? writingPlaces(conversation.state.messages.at(-1)) : [];
    for (const marks of this._marks) {
      marks.writing = writing;
    }
  }

  private readonly _services: IMarkServices;
  private readonly _marks = new Set<NotebookMarks>();
}
