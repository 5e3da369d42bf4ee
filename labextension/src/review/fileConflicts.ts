import type { Move, Renames } from '../bridge/renames';
import { inBrowser } from '../storage';
import { Store } from '../store';
import type { ICellConflict, ITabBridge } from '../tokens';

/** A cell whose version in the page was kept although the file had a different one. */
export interface IFileConflict extends ICellConflict {
  /** The path of the notebook. */
  notebook: string;
}

/** Decisions for the user about cells that could not be merged with the file. Survives a reload. */
export class FileConflicts extends Store<readonly IFileConflict[]> {
  /** @param _key - Their key in the browser's storage. */
  constructor(
    bridge: ITabBridge,
    renames: Pick<Renames, 'moved'>,
    private readonly _key: string
  ) {
    super(readStored(_key));
    bridge.conflicted.connect((_, { notebook, cells }) => this._add(notebook, cells));
    renames.moved.connect((_, move) => this._move(move));
    window.addEventListener('storage', ({ key }) => {
      if (key === _key) {
        this.set(readStored(_key)); // another page has added or settled one
      }
    });
  }

  /** A conflict replaces an earlier one of the same cell, unless the earlier one has the only copy of a text. */
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

  /** Mark a conflict as decided. */
  settle(conflict: IFileConflict): void {
    this._keep(this.state.filter(one => one !== conflict));
  }

  private _move(move: Move): void {
    if (this.state.some(({ notebook }) => move(notebook) !== notebook)) {
      this._keep(this.state.map(one => ({ ...one, notebook: move(one.notebook) })));
    }
  }

  private _keep(state: readonly IFileConflict[]): void {
    this.set(state);
    inBrowser.set(this._key, state);
  }
}

function readStored(key: string): readonly IFileConflict[] {
  return inBrowser.get<IFileConflict[]>(key) ?? [];
}
