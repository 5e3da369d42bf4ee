import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';
import type { YNotebook } from '@jupyter/ydoc';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type * as Y from 'yjs';
import type { ICellConflict } from '../tokens';
import type { PageCells } from './pageCells';
import type { IFileState } from './reload';
import { takeIn } from './reload';
import {
  Overtaken,
  SILENT,
  acknowledge,
  isOvertaken,
  isSameNotebook,
  lookTwice,
  trySave,
  orTimeoutAfterFreeze
} from './sureSave';
import type { ISave } from './saveQueue';
import { SaveQueue } from './saveQueue';
import { SerialQueue } from './serialQueue';

/** Number of states of the file that are remembered as saved by this page. */
const MOST_SAVED = 100;

/** How often a save is restarted because others keep writing the file; after that JupyterLab handles it. */
const MOST_ATTEMPTS = 10;

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The state of the file that this page last loaded or saved. */
interface IKnown extends IFileState {
  hash: string;
  /** Milliseconds. */
  modified: number;
}

/**
 * Serializes this page's operations on the file of one notebook: saves, the user's and ours, checkpoints, renames, and
 * loading new content from the file.
 *
 * JupyterLab 4.6 asks about a "changed file" when two of its own saves overlap, and marks the notebook as saved after a
 * save even if something was typed during it. A save during a rename recreates the old file, with the newest text. If
 * the file has changed, JupyterLab asks which side to discard, and after a rename it does not even ask. Here each save
 * first checks the file, and is restarted if others write it before the save arrives.
 */
export class FileAccess {
  constructor(
    private readonly _context: Context,
    private readonly _contents: Contents.IManager,
    private readonly _cells: PageCells,
    private readonly _onConflicts: (conflicts: readonly ICellConflict[]) => void
  ) {
    this._hasLoaded();
    (_context.model.sharedModel as YNotebook).ydoc.on('afterTransaction', this._onChanged);
    const save = _context.save.bind(_context);
    this._saves = new SaveQueue(this._work, async () => {
      for (let attempt = 1; !(await this._save(save, attempt)); attempt++);
      return this.hash;
    });
    _context.save = () => this.save().done;
    const checkpoint = _context.createCheckpoint.bind(_context);
    _context.createCheckpoint = () => this.enqueue(checkpoint); // JupyterLab makes one after each save by the user
    const revert = _context.revert.bind(_context);
    const load = (): Promise<void> => revert().then(() => this._hasLoaded());
    _context.revert = () => this.enqueue(load);
    const restore = _context.restoreCheckpoint.bind(_context);
    _context.restoreCheckpoint = id => this.enqueue(() => restore(id).then(load)); // before a save overwrites it
  }

  /** Save; JupyterLab's own saves also go through this method. */
  save(): ISave {
    return this._saves.save();
  }

  /** Whether an operation is in progress. */
  get isBusy(): boolean {
    return this._work.isBusy;
  }

  /** Whether the notebook has changes that its file lacks, except those JupyterLab makes to every notebook. */
  get isAhead(): boolean {
    return this._isAhead;
  }

  /** Emitted when `isAhead` may have changed. */
  get aheadChanged(): ISignal<this, void> {
    return this._aheadChanged;
  }

  /** The hash of the file as this page last loaded or saved it. */
  get hash(): string | undefined {
    return this._known?.hash ?? this._context.contentsModel?.hash;
  }

  /** Run `work` after all operations requested before, and before all later ones. */
  enqueue<T>(work: () => Promise<T>): Promise<T> {
    return this._work.run(work);
  }

  /** JupyterLab checks the file, before and after it writes it. Rejects if the save has to be restarted. */
  async look(get: () => Promise<Contents.IModel>): Promise<Contents.IModel> {
    const attempt = this._attempt;
    const file = await lookTwice(get).catch((error: unknown) => {
      throw attempt && this._sent && isOvertaken(error) ? new Overtaken() : error;
    });
    if (attempt && attempt !== this._attempt) {
      throw new Overtaken(); // the page was frozen in the meantime, and another save has started
    }
    if (attempt && !this._sent && file.hash && file.hash !== this.hash) {
      throw new Overtaken();
    }
    return file;
  }

  /** JupyterLab writes the file. Rejects if the save has to be restarted. */
  async write(
    options: Partial<Contents.IModel>,
    put: (options: Partial<Contents.IModel>) => Promise<Contents.IModel>
  ): Promise<Contents.IModel> {
    this._sent = { content: options.content as INotebookContent, ids: this._cells.ids };
    this._written = null;
    if (!this._attempt) {
      return put(options);
    }
    const seen = { jupyter_agent_seen: this.hash };
    try {
      const file = await put({ ...options, ...seen });
      this._written = file.hash ?? null;
      this._isChecked ||= !!file.hash;
      this._saves.hasWritten(file.hash);
      return file;
    } catch (error) {
      throw isOvertaken(error) ? new Overtaken() : error;
    }
  }

  /**
   * Load new content from the file; then save, if the file lacks changes and `autosave` allows it. Rejects if the file
   * cannot be read.
   */
  async reconcile(autosave: () => boolean): Promise<void> {
    if ((await this.enqueue(() => this._mergeWithFile())) && autosave()) {
      await this._context.save();
    }
  }

  /** Merge, then save; false if the file has changed since, as JupyterLab's own check shows. */
  private async _save(save: () => Promise<void>, attempt: number): Promise<boolean> {
    if (attempt > 1 || !this.hash || this.hash !== this._context.contentsModel?.hash) {
      await this._mergeWithFile().catch(() => undefined); // JupyterLab will report the problem with the file
    }
    this._sent = null;
    const wasAhead = this._isAhead;
    this._isAhead = false; // changes from here on may not be in the request
    this._attempt = attempt >= MOST_ATTEMPTS ? 0 : ++this._attempts;
    let isDone = false;
    try {
      isDone = await trySave(this._context, save);
    } finally {
      this._attempt = 0;
      if (isDone) {
        this._hasSaved();
      } else {
        this._unanswered = this._sent ?? this._unanswered;
        this._isAhead ||= wasAhead;
      }
      this._aheadChanged.emit();
    }
    return isDone;
  }

  /**
   * Merge the notebook and its file, if the file is not as this page last saw it. Returns whether the file should then
   * be saved.
   *
   * Nothing is loaded from an earlier state than the page's, but its differences are reported: someone has restored it.
   * A state that this page saved itself may be left over from a save that went elsewhere: if it is earlier, it is not
   * reported; if it is later, it is not loaded, unless the server refuses late saves.
   */
  private async _mergeWithFile(): Promise<boolean> {
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
    const seen = await this._contents.get(path, { content: false, hash: true });
    if (!seen.hash || seen.hash === this.hash) {
      if (seen.hash && seen.hash !== this._context.contentsModel?.hash) {
        acknowledge(this._context, seen); // JupyterLab forgets it at a rename
      }
      return false;
    }
    const file = await this._contents.get(path, { type: 'notebook', content: true, hash: true });
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
      const sent = this._unanswered;
      const base = sent && isSameNotebook(sent.content, content) ? sent : this._known;
      const takes = isLater && (this._isChecked || !isOwn);
      const taken = takeIn(this._cells, model, base, content, takes);
      isAhead = taken.isAhead;
      this._onConflicts(taken.conflicts);
      this._known = { content, ids: taken.ids, hash: file.hash, modified };
    }
    acknowledge(this._context, file);
    model.dirty = isAhead;
    this._setAhead(isAhead);
    return isAhead;
  }

  private _hasLoaded(): void {
    const { model, contentsModel } = this._context;
    if (contentsModel?.hash) {
      const content = model.toJSON() as INotebookContent;
      this._know({ content, ids: this._cells.ids }, contentsModel);
    }
    this._setAhead(false);
  }

  private readonly _onChanged = ({ changed }: Y.Transaction): void => {
    if (!this._isAhead) {
      const { ydoc } = this._context.model.sharedModel as YNotebook;
      const meta = ydoc.getMap('meta');
      const ofJupyterLab = [ydoc.getMap('state'), meta, meta.get('metadata')];
      if ([...changed.keys()].some((type: unknown) => !ofJupyterLab.includes(type))) {
        this._setAhead(true);
      }
    }
  };

  private _setAhead(isAhead: boolean): void {
    if (this._isAhead !== isAhead) {
      this._isAhead = isAhead;
      this._aheadChanged.emit();
    }
  }

  private _hasSaved(): void {
    const { contentsModel } = this._context;
    const hash = this._written ?? contentsModel?.hash; // which may be from someone else by now
    if (this._sent && contentsModel && hash) {
      this._know(this._sent, { ...contentsModel, hash });
      this._remember(hash);
    }
    this._sent = this._unanswered = null;
  }

  private _know(
    state: IFileState,
    { hash, last_modified }: Omit<Contents.IModel, 'content'>
  ): void {
    this._known = { ...state, hash: hash ?? '', modified: Date.parse(last_modified) };
  }

  private _remember(hash: string): void {
    this._saved.delete(hash);
    this._saved.add(hash);
    for (const oldest of [...this._saved].slice(0, -MOST_SAVED)) {
      this._saved.delete(oldest);
    }
  }

  private readonly _work = new SerialQueue();
  private readonly _saves: SaveQueue;
  private _known: IKnown | null = null;
  private _sent: IFileState | null = null;
  /** The hash of the written file, if the server reports it. */
  private _written: string | null = null;
  /** Whether the server compares the file with the state that a save is based on: then no save can be late. */
  private _isChecked = false;
  /** The number of the save that is in progress and may be restarted, else 0. */
  private _attempt = 0;
  private _attempts = 0;
  /** The content last sent in a failed save: it may still have arrived. */
  private _unanswered: IFileState | null = null;
  /** The number of the last check of the file. */
  private _looks = 0;
  private _isAhead = false;
  private readonly _aheadChanged = new Signal<this, void>(this);
  private readonly _saved = new Set<string>();
}
