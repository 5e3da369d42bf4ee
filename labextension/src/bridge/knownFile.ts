import type { YNotebook } from '@jupyter/ydoc';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';
import type { ICellConflict } from '../tokens';
import type { Context } from './context';
import type { IFiles } from './fileRequests';
import { LOAD, LOOK, SILENT, isMissing, lookTwice, orTimeoutAfterFreeze } from './fileRequests';
import type { PageCells } from './pageCells';
import type { IFileState } from './reload';
import { cellsThatDiffer, takeIn } from './reload';
import type { IChanges } from './unsavedChanges';
import { UnsavedChanges } from './unsavedChanges';

/** Number of states of the file that are remembered as saved by this page. */
const MOST_SAVED = 100;

/** Number of texts that are remembered as perhaps saved. */
const MOST_UNANSWERED = 10;

/** The hash of a file that does not exist. */
const NO_FILE = '';

/** The state of the file that this page last loaded or saved. */
interface IKnown extends IFileState {
  hash: string;
  /** Milliseconds. */
  modified: number;
}

/** A text on its way to the file. */
export interface ISent extends IFileState {
  changes: IChanges;
}

/** What this page knows of the file of a notebook, to merge what others write into it. */
export class KnownFile {
  constructor(
    private readonly _context: Context,
    private readonly _files: IFiles,
    private readonly _cells: PageCells,
    private readonly _onConflicts: (conflicts: readonly ICellConflict[]) => void
  ) {
    this.unsaved = new UnsavedChanges(_context.model.sharedModel as YNotebook);
    this.hasLoaded(_context.contentsModel);
  }

  /** The changes of the notebook that its file lacks. */
  readonly unsaved: UnsavedChanges;

  /** The hash of the file as this page last loaded or saved it; undefined if the server has no hashes. */
  get hash(): string | undefined {
    return this._known?.hash;
  }

  /** The hash of the file as this page last looked at it, empty if it was missing: a save may replace only that. */
  get seen(): string | undefined {
    return this._seen;
  }

  /** Whether the server compares the file with the state that a save is based on: then no save can be late. */
  get isChecked(): boolean {
    return this._isChecked;
  }

  /** The notebook has just become this file. */
  hasLoaded(file: Omit<Contents.IModel, 'content'> | null): void {
    if (file?.hash) {
      const content = this._context.model.toJSON() as INotebookContent;
      this._know({ content, ids: this._cells.ids }, file);
    }
    this.unsaved.hasCompared(false);
  }

  /** The text as it is now, or `content` if the notebook is closed. */
  textToSend(content: unknown): ISent {
    const { model, isDisposed } = this._context;
    const text = (isDisposed ? content : model.toJSON()) as INotebookContent;
    return { content: text, ids: this._cells.ids, changes: this.unsaved.now() };
  }

  /** It is unknown whether the server has written that text, or whether it is still there. */
  hasNoAnswer(sent: ISent): void {
    this._unanswered.unshift(sent);
    this._unanswered.splice(MOST_UNANSWERED);
  }

  /** The server may be another one by now. */
  hasLostServer(): void {
    this._isChecked = false;
  }

  /** The server has written that text. */
  hasSaved(sent: ISent, file: Contents.IModel): void {
    this._unanswered.length = 0;
    this._isChecked = 'jupyter_agent_written' in file;
    this._know(sent, file);
    this._remember(file.hash);
    this.unsaved.hasSaved(sent.changes);
  }

  /**
   * Merge the notebook and its file, if the file is not as this page last saw it. Returns whether the file should then
   * be saved.
   *
   * Nothing is loaded from an earlier state than the page's, but its differences are reported: someone has restored it.
   * A state that this page saved itself may be left over from a save that went elsewhere: if it is earlier, it is not
   * reported; if it is later, it is not loaded, unless the server refuses late saves.
   */
  async merge(): Promise<boolean> {
    const look = ++this._looks;
    const isAhead = await orTimeoutAfterFreeze(this._compare(look));
    if (isAhead === SILENT) {
      this._looks++; // in case it is still answered: too late
      return false;
    }
    return isAhead;
  }

  private async _compare(look: number): Promise<boolean> {
    const { path, model } = this._context;
    const seen = await this._look(path);
    if (!seen.hash || seen.hash === this.hash) {
      this._seen = seen.hash;
      return false;
    }
    const file = await this._files.get(path, LOAD);
    // From here to the end is one tick, in which no one types.
    const isOver = this._context.isDisposed || look !== this._looks;
    if (isOver || this._context.path !== path || !file.hash) {
      return false;
    }
    const isOwn = this._saved.has(file.hash);
    const modified = Date.parse(file.last_modified);
    const isLater = modified > (this._known?.modified ?? 0);
    let isAhead = true;
    if (!isOwn || isLater) {
      const content = file.content as INotebookContent;
      const base = this._closestTo(content);
      const takes = isLater && (this._isChecked || !isOwn);
      const taken = takeIn(this._cells, model, base, content, takes);
      isAhead = taken.isAhead;
      this._onConflicts(taken.conflicts);
      this._know({ content, ids: taken.ids }, file);
    }
    this._seen = file.hash;
    model.dirty = isAhead;
    this.unsaved.hasCompared(isAhead);
    return isAhead;
  }

  /** The state that others started from, if they have changed the file: one that is known, or may have arrived. */
  private _closestTo(content: INotebookContent): IFileState | null {
    if (!this._unanswered.length) {
      return this._known; // comparing costs time in a notebook with large outputs
    }
    const states = [this._known, ...this._unanswered].flatMap(state => state ?? []);
    const distances = states.map(state => cellsThatDiffer(state.content, content));
    return states[distances.indexOf(Math.min(...distances))] ?? null;
  }

  private async _look(path: string): Promise<Contents.IModel> {
    try {
      return await lookTwice(() => this._files.get(path, LOOK));
    } catch (error) {
      this._seen = isMissing(error) ? NO_FILE : this._seen;
      throw error;
    }
  }

  private _know(
    state: IFileState,
    { hash, last_modified }: Omit<Contents.IModel, 'content'>
  ): void {
    this._seen = hash;
    this._known = hash ? { ...state, hash, modified: Date.parse(last_modified) } : null;
  }

  private _remember(hash: string | undefined): void {
    if (hash) {
      this._saved.delete(hash);
      this._saved.add(hash);
      for (const oldest of [...this._saved].slice(0, -MOST_SAVED)) {
        this._saved.delete(oldest);
      }
    }
  }

  private _known: IKnown | null = null;
  private _seen: string | undefined;
  private _isChecked = false;
  /** The texts sent in saves that were not answered, the last one first: they may have arrived. */
  private readonly _unanswered: ISent[] = [];
  /** The number of the last comparison. */
  private _looks = 0;
  private readonly _saved = new Set<string>();
}
