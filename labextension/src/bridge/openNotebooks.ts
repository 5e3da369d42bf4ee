import type { Cell } from '@jupyterlab/cells';
import { isCodeCellModel } from '@jupyterlab/cells';
import type { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { IMergeCell } from '../tokens';
import { leaveEditor, showCell } from './activeCell';
import type { ICellGlance } from './cellGlance';
import { glanceAt } from './cellGlance';
import { rewrite, selectedText } from './cellText';
import { withoutTrust } from './merge';
import type { Attachment, ICellRef, Share } from '../api/protocol';

/** The key of our metadata in a notebook, and the tag of cells that no model sees. */
export const METADATA_KEY = 'jupyter_agent';
const HIDDEN_TAG = 'agent-hidden';
const MARKED_CLASS = 'jp-Agent-marked';
const STALE_CLASS = 'jp-Agent-stale';

/** Where the user is: the notebook in front, its active cell, and the text selected in it. */
export interface IPlace {
  notebook: string;
  attachments: Attachment[];
}

/** The notebooks open on this page. */
export class OpenNotebooks {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _activate: (panel: NotebookPanel) => void,
    private readonly _driveName: (path: string) => string
  ) {
    _tracker.currentChanged.connect(this._onMoved, this);
    _tracker.activeCellChanged.connect(this._onMoved, this);
    _tracker.selectionChanged.connect(this._onMoved, this);
    NotebookActions.selectionExecuted.connect(this._onRan, this);
    _tracker.widgetAdded.connect(this._onOpened, this);
  }

  /** The paths of all open notebooks. */
  get paths(): string[] {
    const paths = new Set<string>();
    this._tracker.forEach(({ context }) => paths.add(context.path));
    return [...paths];
  }

  /** Emitted with the path of a notebook that was opened, or renamed. */
  get opened(): ISignal<this, string> {
    return this._opened;
  }

  /** Emitted when the current notebook, cell or selection changes. */
  get moved(): ISignal<this, void> {
    return this._moved;
  }

  /** Emitted with the path of a notebook in which the user has run cells, when they are done. */
  get ran(): ISignal<this, string> {
    return this._ran;
  }

  /** The drive of the notebook in front, or empty if it is on our server. Files on other drives cannot be accessed. */
  get drive(): string {
    const { currentWidget } = this._tracker;
    return currentWidget ? this._driveName(currentWidget.context.path) : '';
  }

  /** Where the user is, or null if no notebook of our server is in front. */
  get place(): IPlace | null {
    const panel = this._tracker.currentWidget;
    if (!panel || this.drive) {
      return null;
    }
    const notebook = panel.context.path;
    const cell = this._tracker.activeCell;
    const cell_id = cell?.model.id;
    const attachments: Attachment[] = cell_id ? [{ type: 'cell', notebook, cell_id }] : [];
    const text = cell ? selectedText(cell) : '';
    if (cell_id && text) {
      attachments.push({ type: 'selection', notebook, cell_id, text });
    }
    return { notebook, attachments };
  }

  /** Whether the output of the active cell shows an error. */
  get hasFailed(): boolean {
    const cell = this._tracker.activeCell;
    return cell !== null && glanceAt(cell.model.sharedModel).failed;
  }

  /** Summaries of the cells of the notebook in front, or null if there isn't one. */
  glance(): ICellGlance[] | null {
    const cells = this._tracker.currentWidget?.content.model?.sharedModel.cells;
    return cells?.map(glanceAt) ?? null;
  }

  /** The cells of a notebook with their first lines; empty if it is not open here. */
  outline(notebook: string): { cell_id: string; position: number; line: string }[] {
    const cells = this._panel(notebook)?.content.widgets ?? [];
    return cells.map(({ model }, index) => ({
      cell_id: model.id,
      position: index + 1,
      line: model.sharedModel.getSource().trim().split('\n', 1)[0].slice(0, 80)
    }));
  }

  /** References to these cells, without those that are not in an open notebook. */
  refs(cells: readonly Cell[]): ICellRef[] {
    return cells.flatMap(cell => {
      const panel = this._tracker.find(({ content }) => content.widgets.includes(cell));
      return panel ? [{ notebook: panel.context.path, cell_id: cell.model.id }] : [];
    });
  }

  /** The cell with this id, looked up in the notebook in front first; null if none is open here. */
  find(cellId: string | undefined): ICellRef | null {
    const { currentWidget } = this._tracker;
    const has = ({ content }: NotebookPanel): boolean =>
      content.widgets.some(({ model }) => model.id === cellId);
    const panel = currentWidget && has(currentWidget) ? currentWidget : this._tracker.find(has);
    return panel && cellId ? { notebook: panel.context.path, cell_id: cellId } : null;
  }

  /** How much the notebook in front shares with models, and how many cells it hides; null if there isn't one. */
  sharing(): { share: Share; hidden: number } | null {
    const model = this._tracker.currentWidget?.content.model;
    if (!model) {
      return null;
    }
    const { share = 'all' } = (model.getMetadata(METADATA_KEY) ?? {}) as { share?: Share };
    const tags = [...model.cells].map(cell => cell.getMetadata('tags') as unknown);
    const hidden = tags.filter(own => Array.isArray(own) && own.includes(HIDDEN_TAG)).length;
    return { share, hidden };
  }

  /** Store in the notebook in front how much of it models see. */
  setShare(share: Share): void {
    const model = this._tracker.currentWidget?.content.model;
    const known = model?.getMetadata(METADATA_KEY) as object | undefined;
    model?.setMetadata(METADATA_KEY, { ...known, share });
  }

  /** The mime type of a cell's source, by `type` or else by the cell that is open here; code by default. */
  mimeType(notebook: string | null | undefined, cellId?: string | null, type?: unknown): string {
    const cell = notebook && cellId ? this._cell({ notebook, cell_id: cellId }) : null;
    switch (type ?? cell?.model.type) {
      case 'markdown':
        return 'text/x-ipythongfm';
      case 'raw':
        return 'text/plain';
    }
    const kernelType = this._panel(notebook)?.content.codeMimetype;
    return kernelType && kernelType !== 'text/plain' ? kernelType : 'text/x-python'; // known once the kernel runs
  }

  /** The current source of a cell, or null if it is not open here. */
  source(ref: ICellRef): string | null {
    return this._cell(ref)?.model.sharedModel.getSource() ?? null;
  }

  /** The position of a cell, counted from 1, or null if it is not open here. */
  position({ notebook, cell_id }: ICellRef): number | null {
    const cells = this._panel(notebook)?.content.widgets ?? [];
    const index = cells.findIndex(cell => cell.model.id === cell_id);
    return index < 0 ? null : index + 1;
  }

  /** Whether the kernel of a notebook open here is starting, and the position of the cell that is running in it. */
  kernel(notebook: string | null): { starting: boolean; busy: number | null } {
    const panel = this._panel(notebook);
    const status = panel?.sessionContext.session?.kernel?.status ?? '';
    const running = (panel?.content.widgets ?? []).findIndex(
      ({ model }) => isCodeCellModel(model) && model.executionState === 'running'
    );
    const starting = ['starting', 'restarting', 'autorestarting'].includes(status);
    return { starting, busy: running < 0 ? null : running + 1 };
  }

  /** Bring a cell into view and make it active. */
  async reveal(ref: ICellRef): Promise<void> {
    const panel = this._panel(ref.notebook);
    const index = (this.position(ref) ?? 0) - 1;
    if (panel && index >= 0) {
      this._activate(panel);
      await showCell(panel.content, index);
    }
  }

  /** Leave the editor of a cell, if the user is in it. */
  leave({ notebook, cell_id }: ICellRef): void {
    leaveEditor(this._panel(notebook)?.content, cell_id);
  }

  /** Set a cell's text, as the user would. */
  rewrite(ref: ICellRef, source: string): void {
    const cell = this._cell(ref);
    if (cell) {
      rewrite(cell.model.sharedModel, source);
    }
  }

  /** Delete a cell, as the user would. */
  remove(ref: ICellRef): void {
    const index = (this.position(ref) ?? 0) - 1;
    if (index >= 0) {
      this._panel(ref.notebook)?.content.model?.sharedModel.deleteCell(index);
    }
  }

  /** Restore a deleted cell: below the first existing cell of `above`, else at the end. */
  restore(notebook: string, cell: IMergeCell, above: readonly string[] = []): void {
    const shared = this._panel(notebook)?.content.model?.sharedModel;
    const at = above.map(cell_id => this.position({ notebook, cell_id })).find(Boolean);
    shared?.insertCell(at ?? shared.cells.length, {
      ...cell,
      metadata: withoutTrust(cell.metadata)
    } as never);
  }

  /** Highlight a cell while the pointer is on a mention of it. */
  mark(ref: ICellRef, on: boolean): void {
    this._cell(ref)?.toggleClass(MARKED_CLASS, on);
  }

  /** Mark these cells of a notebook, and no others, as out of date, in each of its views. */
  markStale(notebook: string, cells: readonly string[]): void {
    const views = this._tracker.filter(({ context }) => context.path === notebook);
    for (const cell of views.flatMap(({ content }) => content.widgets)) {
      cell.toggleClass(STALE_CLASS, cells.includes(cell.model.id));
    }
  }

  /** Add a code cell below the active one of the notebook in front, as the user would; false if there isn't any. */
  insert(source: string): boolean {
    const notebook = this._tracker.currentWidget?.content;
    if (!notebook?.model) {
      return false;
    }
    const index = notebook.activeCellIndex + 1;
    const cell = { cell_type: 'code', source, metadata: { trusted: true } };
    notebook.model.sharedModel.insertCell(index, cell);
    notebook.activeCellIndex = index;
    void notebook.scrollToItem(index, 'smart');
    return true;
  }

  /** Run cells of an open notebook in order, as if the user had; returns when they are done. */
  async run(notebook: string, cells: readonly string[]): Promise<void> {
    const panel = this._panel(notebook);
    if (panel) {
      const { content, sessionContext } = panel;
      const chosen = content.widgets.filter(({ model }) => cells.includes(model.id));
      await NotebookActions.runCells(content, chosen, sessionContext);
      this._ran.emit(notebook);
    }
  }

  private _panel(notebook: string | null | undefined): NotebookPanel | undefined {
    const current = this._tracker.currentWidget;
    return current?.context.path === notebook
      ? (current ?? undefined)
      : this._tracker.find(panel => panel.context.path === notebook);
  }

  private _cell({ notebook, cell_id }: ICellRef): Cell | undefined {
    return this._panel(notebook)?.content.widgets.find(cell => cell.model.id === cell_id);
  }

  private _onOpened(_: unknown, { context }: NotebookPanel): void {
    void context.ready.then(() => this._opened.emit(context.path));
    context.pathChanged.connect((_, path) => this._opened.emit(path));
  }

  private _onMoved(): void {
    this._moved.emit();
  }

  private _onRan(_: unknown, { notebook }: { notebook: Notebook }): void {
    const panel = this._tracker.find(({ content }) => content === notebook);
    if (panel) {
      this._ran.emit(panel.context.path);
    }
  }

  private readonly _opened = new Signal<this, string>(this);
  private readonly _ran = new Signal<this, string>(this);
  private readonly _moved = new Signal<this, void>(this);
}
