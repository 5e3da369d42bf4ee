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
  unlessSilent
} from './sureSave';
import type { ISave } from './saveQueue';
import { SaveQueue } from './saveQueue';
import { Turns } from './turns';

/** States of the file that are remembered as saved by this page. */
const MOST_SAVED = 100;

/** How often a save begins again because others keep writing the file; then it is JupyterLab's. */
const MOST_ATTEMPTS = 10;

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The file in the state that this page last loaded or saved. */
interface IKnown extends IFileState {
  hash: string;
  /** Milliseconds. */
  modified: number;
}

/**
 * Whatever this page does with the file of one notebook, one thing after the other: saves, the user's and ours,
 * checkpoints, renames, and taking in what is new in the file.
 *
 * JupyterLab 4.6 asks about a "changed file" when two saves of its own overlap, and marks the notebook as saved at the end
 * of one although something was typed meanwhile. A save that meets a rename makes the old file again, with the newest text.
 * Where the file is another one, it asks which side to lose, and after a rename it does not even ask. Here each save is
 * preceded by a look at the file, and begins again where others write it before the save arrives.
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
    this._queue = new SaveQueue(this._turns, async () => {
      for (let attempt = 1; !(await this._save(save, attempt)); attempt++);
      return this.hash;
    });
    _context.save = () => this.save().done;
    const checkpoint = _context.createCheckpoint.bind(_context);
    _context.createCheckpoint = () => this.inTurn(checkpoint); // JupyterLab makes one after each save of the user's
    const revert = _context.revert.bind(_context);
    const load = (): Promise<void> => revert().then(() => this._hasLoaded());
    _context.revert = () => this.inTurn(load);
    const restore = _context.restoreCheckpoint.bind(_context);
    _context.restoreCheckpoint = id => this.inTurn(() => restore(id).then(load)); // before a save overwrites it
  }

  /** Save; JupyterLab's own way to save is this one. */
  save(): ISave {
    return this._queue.save();
  }

  /** Whether something is under way. */
  get isBusy(): boolean {
    return this._turns.isBusy;
  }

  /** Whether the notebook has anything that its file has not, but for what JupyterLab writes into each that it opens. */
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

  /** Do it once everything is done that was asked for before, and before anything that follows. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this._turns.take(work);
  }

  /** JupyterLab looks at the file, before and after it writes it. Rejects where the save has to begin again. */
  async look(get: () => Promise<Contents.IModel>): Promise<Contents.IModel> {
    const attempt = this._attempt;
    const file = await lookTwice(get).catch((error: unknown) => {
      throw attempt && this._sent && isOvertaken(error) ? new Overtaken() : error;
    });
    if (attempt && attempt !== this._attempt) {
      throw new Overtaken(); // a page was frozen meanwhile, and another save has begun
    }
    if (attempt && !this._sent && file.hash && file.hash !== this.hash) {
      throw new Overtaken();
    }
    return file;
  }

  /** JupyterLab writes the file. Rejects where the save has to begin again. */
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
      this._queue.hasWritten(file.hash);
      return file;
    } catch (error) {
      throw isOvertaken(error) ? new Overtaken() : error;
    }
  }

  /**
   * Take in what is new in the file; then save, if the file has not everything and `autosave` says so. Rejects if the
   * file cannot be read.
   */
  async meet(autosave: () => boolean): Promise<void> {
    if ((await this.inTurn(() => this._takeIn())) && autosave()) {
      await this._context.save();
    }
  }

  /** Bring both together, then save; false where it was changed since, as JupyterLab's own look at the file tells. */
  private async _save(save: () => Promise<void>, attempt: number): Promise<boolean> {
    if (attempt > 1 || !this.hash || this.hash !== this._context.contentsModel?.hash) {
      await this._takeIn().catch(() => undefined); // JupyterLab will tell what is wrong with the file
    }
    this._sent = null;
    const wasAhead = this._isAhead;
    this._isAhead = false; // what is changed from here on may not be in what is sent
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
   * Bring the notebook and its file together, where the file is not as this page last saw it. Returns whether the file
   * is to be saved then.
   *
   * Of an earlier state than this page knows nothing is taken, but what is different there is told: somebody has gone back.
   * One that this page saved itself may have been left behind by a save that went elsewhere: nothing of an earlier one is
   * told, and of a later one nothing is taken, unless the server refuses saves that come late.
   */
  private async _takeIn(): Promise<boolean> {
    const look = ++this._looks;
    const isAhead = await unlessSilent(this._compare(look));
    if (isAhead === SILENT) {
      this._looks++; // should it be answered yet: too late
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
    // From here to the end is one tick, in which nobody types.
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
    const hash = this._written ?? contentsModel?.hash; // which may be somebody else's by now
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

  private readonly _turns = new Turns();
  private readonly _queue: SaveQueue;
  private _known: IKnown | null = null;
  private _sent: IFileState | null = null;
  /** The hash of the file as it was written, where the server says it. */
  private _written: string | null = null;
  /** Whether the server compares what a save has seen with the file: then none comes late. */
  private _isChecked = false;
  /** The number of the save that is under way and may begin again, else 0. */
  private _attempt = 0;
  private _attempts = 0;
  /** What was sent last in a save that failed: it may have arrived all the same. */
  private _unanswered: IFileState | null = null;
  /** The number of the last look at the file. */
  private _looks = 0;
  private _isAhead = false;
  private readonly _aheadChanged = new Signal<this, void>(this);
  private readonly _saved = new Set<string>();
}
