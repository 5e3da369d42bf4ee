import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Assistant } from '../chat/assistant';
import { AskedCell } from './askedCell';
import { CellPrompt } from './cellPrompt';
import { Offer } from './offer';
import { WrittenTexts } from './writtenTexts';

interface ICellPromptsOptions {
  tracker: INotebookTracker;
  assistant: Assistant;
  notebooks: OpenNotebooks;
  /** Show the panel with the answer. */
  showPanel: () => void;
  trans: TranslationBundle;
}

/** Opens prompt lines at cells; an empty cell offers one. */
export class CellPrompts {
  constructor(private readonly _options: ICellPromptsOptions) {
    const { tracker, trans } = _options;
    const offer = new Offer(
      cell => this._mayAskAt(cell),
      () => this.open(),
      trans
    );
    tracker.activeCellChanged.connect((_, cell) => offer.show(cell));
    offer.show(tracker.activeCell);
  }

  /** Open the line at the active cell of the notebook in front, or at another cell of it, with `text` in it. */
  open(cellId?: string, text?: string): CellPrompt | null {
    const { tracker } = this._options;
    const panel = tracker.currentWidget;
    const id = cellId ?? tracker.activeCell?.model.id;
    if (!panel || !panel.content.widgets.some(({ model }) => model.id === id) || !id) {
      return null;
    }
    const open = [...this._prompts].find(
      ([prompt, at]) => !prompt.isDisposed && at === panel && prompt.cellId === id
    );
    const [prompt] = open ?? [this._make(panel, id)];
    prompt.focus(text);
    return prompt;
  }

  private _make(panel: NotebookPanel, cellId: string): CellPrompt {
    const { assistant, notebooks, showPanel, trans } = this._options;
    for (const prompt of this._prompts.keys()) {
      if (prompt.isDisposed) {
        this._prompts.delete(prompt);
      }
    }
    const notebook = (): string => panel.context.path;
    const asked = new AskedCell({ assistant, notebooks, notebook, cellId, trans });
    const prompt = new CellPrompt({ panel, cellId, asked, texts: this._texts, showPanel, trans });
    this._prompts.set(prompt, panel);
    return prompt;
  }

  /** Whether the cell is on our server and the user may change it. */
  private _mayAskAt(cell: Cell): boolean {
    const { notebooks, tracker } = this._options;
    const model = tracker.currentWidget?.content.model;
    return notebooks.place !== null && !cell.readOnly && model?.readOnly !== true;
  }

  private readonly _texts = new WrittenTexts();
  private readonly _prompts = new Map<CellPrompt, NotebookPanel>();
}
