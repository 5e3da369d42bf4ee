import { Store } from '../store';
import type { ICellConflict } from './merge';

/** A cell whose version in the page was kept although the file had another one. */
export interface IFileConflict extends ICellConflict {
  /** The path of the notebook. */
  notebook: string;
}

/** What the user has to decide because page and file could not both be kept. Outlives the page. */
export class Conflicts extends Store<readonly IFileConflict[]> {
  /** @param _key - Where in the browser's storage they are kept. */
  constructor(private readonly _key: string) {
    super(stored(_key));
  }

  /** Later ones take the place of earlier ones of the same cell. */
  add(notebook: string, conflicts: readonly ICellConflict[]): void {
    if (conflicts.length) {
      const again = new Set(conflicts.map(({ cell }) => cell));
      const others = this.state.filter(
        one => one.notebook !== notebook || !again.has(one.cell) || one.theirs === null
      );
      this._keep([...others, ...conflicts.map(conflict => ({ ...conflict, notebook }))]);
    }
  }

  /** It is decided. */
  settle(conflict: IFileConflict): void {
    this._keep(this.state.filter(one => one !== conflict));
  }

  /** The notebook has another path now. */
  moved(old: string, path: string): void {
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
