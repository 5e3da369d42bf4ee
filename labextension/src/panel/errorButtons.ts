import type { Cell, CodeCell } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ICellRef } from '../api/protocol';

const BUTTON = 'jp-Agent-fix';

/** Shows a button under the output of each cell that failed. */
export class ErrorButtons {
  /** @param _fix - The action of the button. */
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _fix: (cell: ICellRef) => void,
    private readonly _trans: TranslationBundle
  ) {
    _tracker.widgetAdded.connect(this._follow, this);
    _tracker.forEach(panel => this._follow(_tracker, panel));
  }

  /** Whether the user wants them. */
  set shown(shown: boolean) {
    this._shown = shown;
    this._tracker.forEach(panel => this._update(panel));
  }

  private _follow(_: INotebookTracker, panel: NotebookPanel): void {
    const { content, context } = panel;
    const update = (): void => this._update(panel);
    content.modelContentChanged.connect(update); // cells and outputs as well
    void context.ready.then(update);
  }

  private _update(panel: NotebookPanel): void {
    if (this._due.has(panel) || panel.isDisposed) {
      return;
    }
    this._due.add(panel);
    requestAnimationFrame(() => {
      this._due.delete(panel);
      if (!panel.isDisposed) {
        panel.content.widgets.forEach(cell => this._mark(panel, cell));
      }
    });
  }

  private _mark(panel: NotebookPanel, cell: Cell): void {
    if (!isCodeCellModel(cell.model)) {
      return;
    }
    const { outputs } = cell.model;
    const last = outputs.length ? outputs.get(outputs.length - 1) : null;
    const failed = this._shown && last?.type === 'error';
    const { node } = (cell as CodeCell).outputArea;
    const button = node.querySelector(`:scope > .${BUTTON}`);
    if (failed && !button) {
      node.append(this._button(panel, cell)); // the layout inserts outputs before foreign elements
    } else if (!failed) {
      button?.remove();
    }
  }

  private _button(panel: NotebookPanel, cell: Cell): HTMLElement {
    const button = document.createElement('button');
    button.textContent = this._trans.__('Fix with the assistant');
    button.addEventListener('click', () => {
      this._fix({ notebook: panel.context.path, cell_id: cell.model.id });
    });
    const row = document.createElement('div');
    row.className = BUTTON;
    row.append(button);
    return row;
  }

  private readonly _due = new Set<NotebookPanel>();
  private _shown = true;
}
