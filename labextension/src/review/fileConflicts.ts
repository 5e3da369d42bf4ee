import { Store } from '../store';
import type { ICellConflict, ITabBridge } from '../tokens';

/** A cell whose version in the page was kept although the file had another one. */
export interface IFileConflict extends ICellConflict {
  /** The path of the notebook. */
  notebook: string;
}

/** What the user has to decide because page and file could not both be kept. Outlives the page. */
export class FileConflicts extends Store<readonly IFileConflict[]> {
  /** @param _key - Where in the browser's storage they are kept. */
  constructor(
    bridge: ITabBridge,
    private readonly _key: string
  ) {
    super(stored(_key));
    bridge.conflicted.connect((_, { notebook, cells }) => this._add(notebook, cells));
    bridge.renamed.connect((_, { former, notebook }) => this._rename(former, notebook));
    window.addEventListener('storage', ({ key }) => {
      if (key === _key) {
        this.set(stored(_key)); // another page has found or settled one
      }
    });
  }

  /** A later one takes the place of an earlier one of the same cell, unless that has a text that is nowhere else. */
  private _add(notebook: string, conflicts: readonly ICellConflict[]): void {
    if (conflicts.length) {
      const isOld = (one: IFileConflict): boolean =>
        one.notebook === notebook &&
        conflicts.some(
          ({ cell, theirs }) =>
            cell === one.cell && (!one.theirs || one.theirs.source === theirs?.source)
        );
      const others = this.state.filter(one => !isOld(one));
      this._keep([...others, ...conflicts.map(conflict => ({ ...conflict, notebook }))]);
    }
  }

  /** It is decided. */
  settle(conflict: IFileConflict): void {
    this._keep(this.state.filter(one => one !== conflict));
  }

  private _rename(old: string, path: string): void {
    if (this.state.some(({ notebook }) => notebook === old)) {
      this._keep(this.state.map(one => (one.notebook === old ? { ...one, notebook: path } : one)));
    }
  }

  private _keep(state: readonly IFileConflict[]): void {
    this.set(state);
    try {
      localStorage.setItem(this._key, JSON.stringify(state));
    } catch {
      // The storage is full or forbidden: they are kept as long as this page.
    }
  }
}

function stored(key: string): readonly IFileConflict[] {
  try {
    return JSON.parse(localStorage.getItem(key) ?? '[]') as IFileConflict[];
  } catch {
    return [];
  }
}
