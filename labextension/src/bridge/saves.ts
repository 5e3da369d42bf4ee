import type { Contents } from '@jupyterlab/services';
import type { PartialJSONObject } from '@lumino/coreutils';
import { PromiseDelegate } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { ICellConflict } from '../tokens';
import type { Context } from './context';
import type { IFiles } from './fileRequests';
import {
  LOAD,
  LOOK,
  SILENT,
  getAgainAfterFreeze,
  isMissing,
  isRefused,
  isUnreadable,
  orErrorAfterFreeze,
  orTimeoutAfterFreeze
} from './fileRequests';
import { KnownFile } from './knownFile';
import type { PageCells } from './pageCells';
import { SaveRequests } from './saveRequests';
import { SerialQueue } from './serialQueue';
import type { UnsavedChanges } from './unsavedChanges';

/** How often a save is restarted because others keep writing the file; then it fails. */
const MOST_ATTEMPTS = 10;
const UNMERGEABLE =
  'Another program wrote this file, and its version could not be merged. Nothing was overwritten. ' +
  'Save again to choose which version stays.';
const BUSY =
  'Other programs keep writing this file. Nothing was overwritten. Save again when they are done.';

/** Number of steps within which JupyterLab takes in a file that it has loaded. */
const MOST_STEPS = 100;

/**
 * Serializes this page's operations on the file of one notebook: saves, the user's and ours, renames, and loading new
 * content from the file.
 *
 * JupyterLab writes the text as it was when a save was requested, asks about a "changed file" when two of its own saves
 * overlap, and marks the notebook as saved after a save even if something was typed during it. A save during a rename
 * recreates the old file. If the file has changed, JupyterLab asks which side to discard, and after a rename it does
 * not even ask. Here a save writes the newest text, and only over a state of the file that this page has seen; what
 * others have written is merged first.
 */
export class FileAccess {
  constructor(
    private readonly _context: Context,
    private readonly _files: IFiles,
    cells: PageCells,
    onConflicts: (conflicts: readonly ICellConflict[]) => void
  ) {
    this._known = new KnownFile(_context, _files, cells, onConflicts);
    this._requests = new SaveRequests(_context);
    _context.saveState.connect((_, state) => {
      if (state === 'completed' && this._known.unsaved.exist) {
        _context.model.dirty = true; // it was changed after its text was read
      }
    });
  }

  /** Save the newest text, and return the hash of the file, if known. */
  async save(): Promise<string | undefined> {
    await this._context.save();
    return this.hash;
  }

  /** Whether JupyterLab is about to make a request to save this notebook. */
  get isSaving(): boolean {
    return this._requests.isExpected;
  }

  /** Whether an operation is in progress. */
  get isBusy(): boolean {
    return this._work.isBusy;
  }

  /** Whether the notebook has changes that its file lacks, except those JupyterLab makes to every notebook. */
  get isAhead(): boolean {
    return this._known.unsaved.isAhead;
  }

  /** Emitted when `isAhead` changes. */
  get aheadChanged(): ISignal<UnsavedChanges, void> {
    return this._known.unsaved.aheadChanged;
  }

  /** The hash of the file as this page last loaded or saved it. */
  get hash(): string | undefined {
    return this._known.hash;
  }

  /** Whether a request for `path` is about this file; a rename may come between two requests of one save. */
  isAt(path: string): boolean {
    return this._context.path === path || this._requests.concern(path);
  }

  /** Run `work` after all operations requested before, and before all later ones. */
  enqueue<T>(work: () => Promise<T>): Promise<T> {
    return this._work.run(work);
  }

  /**
   * Somebody asks for the hash of the file. JupyterLab does so before and after it writes it, and is answered from here:
   * before, without a hash, so that it has nothing to compare. It compares by itself if the server has no hashes, or if
   * the file could not be merged at the last save, and still cannot.
   */
  async look(
    path: string,
    get: (path: string) => Promise<Contents.IModel>
  ): Promise<Contents.IModel> {
    const isAmbiguous = this._requests.isAmbiguous(path);
    const written = this._requests.takeWritten(path);
    if (written && !isAmbiguous) {
      return written;
    }
    if (!written && !this._requests.takeCheck()) {
      return get(path);
    }
    try {
      if (this._isUnmergeable) {
        await this._merge();
      }
      const { contentsModel } = this._context;
      return this.hash && contentsModel && !this._isUnmergeable
        ? { ...contentsModel, hash: undefined, content: null }
        : await this.enqueue(() => getAgainAfterFreeze(() => get(this._context.path)));
    } finally {
      this._requests.hasChecked(path);
    }
  }

  /**
   * Somebody writes the file. If it is JupyterLab that saves, the newest text is written instead; otherwise `put` is
   * called. Rejects if the file cannot be written, or if what others write into it cannot be merged.
   */
  async write(
    path: string,
    options: Partial<Contents.IModel>,
    put: () => Promise<Contents.IModel>
  ): Promise<Contents.IModel> {
    if (!this._requests.takeWrite()) {
      return put();
    }
    this._options = options;
    this._next ??= Promise.resolve().then(() => this._write());
    const file = await this._next;
    this._requests.hasWritten(path, file);
    return file;
  }

  /** Somebody, as a rule JupyterLab, loads the file. */
  load(get: () => Promise<Contents.IModel>): Promise<Contents.IModel> {
    const loaded = new PromiseDelegate<Contents.IModel>();
    void this.enqueue(async () => {
      try {
        const file = await getAgainAfterFreeze(get);
        loaded.resolve(file);
        await this._takenIn(file);
      } catch (error) {
        loaded.reject(error);
      }
    });
    return loaded.promise;
  }

  /** Make a checkpoint of the file, wherever it is by then. */
  createCheckpoint<T>(create: (path: string) => Promise<T>): Promise<T> {
    return this.enqueue(() => orErrorAfterFreeze(create(this._context.path)));
  }

  /** Restore a checkpoint and load it, before a save overwrites it. */
  restore(restore: () => Promise<void>): Promise<void> {
    return this.enqueue(async () => {
      await orErrorAfterFreeze(restore());
      const { path, model } = this._context;
      const file = await getAgainAfterFreeze(() => this._files.get(path, LOAD));
      if (!this._context.isDisposed) {
        model.fromJSON(file.content as PartialJSONObject);
        this._hasLoaded(file);
      }
    });
  }

  /** The server may be another one by now. */
  hasLostServer(): void {
    this._known.hasLostServer();
  }

  /**
   * Load new content from the file; then save, if the file lacks changes and `autosave` allows it. Rejects if the file
   * cannot be read.
   */
  async reconcile(autosave: () => boolean): Promise<void> {
    if ((await this.enqueue(() => this._known.merge())) && autosave()) {
      await this.save();
    }
  }

  /** JupyterLab takes a file in as soon as it has it, before any other task of the page, so before anyone types. */
  private async _takenIn(file: Contents.IModel): Promise<void> {
    const { unsaved } = this._known;
    const before = unsaved.now().all;
    for (let step = 0; step < MOST_STEPS; step++) {
      await Promise.resolve();
      if (unsaved.now().all !== before && this._context.contentsModel?.hash === file.hash) {
        this._hasLoaded(file);
        return;
      }
    }
  }

  /**
   * Write the newest text. Merging and writing are operations of their own: a load or a rename that waits comes before
   * the next attempt.
   */
  private async _write(): Promise<Contents.IModel> {
    for (let attempt = 1; ; attempt++) {
      if (attempt > 1 || (this.hash && !this._known.isChecked)) {
        await this._merge().catch(() => undefined); // writing the file shows the problem
      }
      const isLast = attempt >= MOST_ATTEMPTS || this._context.isDisposed;
      const file = await this.enqueue(() => this._put(isLast));
      if (file) {
        return file;
      }
    }
  }

  /** Merge what others have written. Rejects if the server cannot be reached. */
  private async _merge(): Promise<void> {
    try {
      await this.enqueue(() => this._known.merge());
      this._isUnmergeable = false;
    } catch (error) {
      if (!isUnreadable(error)) {
        throw error;
      }
      this._isUnmergeable = true;
    }
  }

  private _hasLoaded(file: Contents.IModel): void {
    this._isUnmergeable = false;
    this._known.hasLoaded(file);
  }

  /** Returns null if the file has changed since the page last saw it, or if the request is not answered. */
  private async _put(isLast: boolean): Promise<Contents.IModel | null> {
    const options = this._options;
    this._next = null; // text typed from here on needs another save
    const { path } = this._context;
    const text = this._known.textToSend(options.content);
    const seen = { jupyter_agent_seen: this._known.seen };
    try {
      const put = this._files.save(path, { ...options, path, content: text.content, ...seen });
      const file = await orTimeoutAfterFreeze(put.then(answer => this._withHash(answer)));
      if (file === SILENT || !file) {
        this._known.hasNoAnswer(text);
        return null;
      }
      this._known.hasSaved(text, file);
      this._isUnmergeable = false;
      return file;
    } catch (error) {
      if (!isRefused(error)) {
        this._known.hasNoAnswer(text);
      }
      if (!isLast && (isRefused(error) || isMissing(error))) {
        return null;
      }
      throw isRefused(error) ? new Error(this._isUnmergeable ? UNMERGEABLE : BUSY) : error;
    }
  }

  /** The written file with the hash of its content, if the server has hashes; null if it is another file by now. */
  private async _withHash(file: Contents.IModel): Promise<Contents.IModel | null> {
    if (file.hash) {
      return file;
    }
    const { hash, hash_algorithm, last_modified } = await this._files.get(file.path, LOOK);
    return last_modified === file.last_modified ? { ...file, hash, hash_algorithm } : null;
  }

  private readonly _work = new SerialQueue();
  private readonly _requests: SaveRequests;
  private readonly _known: KnownFile;
  /** Those of JupyterLab's last request to write the file. */
  private _options: Partial<Contents.IModel> = {};
  /** The save that has not read the text yet. */
  private _next: Promise<Contents.IModel> | null = null;
  /** Whether the file could not be merged when that was last tried. */
  private _isUnmergeable = false;
}
