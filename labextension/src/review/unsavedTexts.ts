import type { YNotebook } from '@jupyter/ydoc';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type * as Y from 'yjs';
import type { Context } from '../bridge/context';
import { mergeAdditions, mergeText } from '../bridge/merge';
import { Store } from '../store';
import type { IMergeCell } from '../tokens';

/** The key of the server's offers in a room's document (`plugs/rooms/room_history.py`). */
const OFFERS = 'jupyter_agent_unsaved';

/** A version of a cell that is missing from a room's document. */
interface IOffer {
  cell: IMergeCell;
  /** Its text when it was last saved; null if it did not exist. */
  base: string | null;
  /** Ids of the cells above it, nearest first. */
  above: readonly string[];
  /** `file`: the file has this version, and the document changed the cell too; else it was typed and not saved. */
  cause?: 'file';
}

/** A text that can be restored in a room. */
export interface IUnsavedText extends IOffer {
  /** The path of the notebook. */
  notebook: string;
  key: string;
}

/** Texts of the open notebooks that can be restored. Everyone in a room sees the same, until one of them decides. */
export class UnsavedTexts extends Store<readonly IUnsavedText[]> {
  constructor(notebooks: INotebookTracker) {
    super([]);
    notebooks.widgetAdded.connect(this._watch, this);
    notebooks.forEach(panel => this._watch(notebooks, panel));
  }

  /** Mark a text as decided. */
  settle({ notebook, key }: IUnsavedText): void {
    for (const [context, offers] of this._offers) {
      if (context.path === notebook) {
        offers.delete(key);
      }
    }
  }

  private _watch(_: unknown, { context }: NotebookPanel): void {
    if (!this._offers.has(context)) {
      const { ydoc } = context.model.sharedModel as YNotebook;
      const offers = ydoc.getMap<IOffer>(OFFERS);
      const collect = (): void => this._collect();
      this._offers.set(context, offers);
      offers.observe(collect);
      context.pathChanged.connect(collect);
      context.disposed.connect(() => {
        this._offers.delete(context);
        collect();
      });
      collect();
    }
  }

  private _collect(): void {
    const all = [...this._offers].flatMap(([{ path }, offers]) =>
      [...offers].map(([key, offer]) => ({ ...offer, notebook: path, key }))
    );
    if (all.length || this.state.length) {
      this.set(all);
    }
  }

  private readonly _offers = new Map<Context, Y.Map<IOffer>>();
}

/** A cell's text with the unsaved text restored. */
export interface IWhole {
  text: string;
  /** Whether both are on separate lines: else later typing directly follows the restored text, even within a word. */
  isApart: boolean;
}

/** A longer text is compared by lines only. */
const LONGEST = 10_000;

/** The cell's text with the unsaved text restored; null if other text has taken its place. */
export function withUnsaved({ base, cell: { source } }: IUnsavedText, now: string): IWhole | null {
  const apart = mergeText(base ?? undefined, source, now);
  if (apart !== null) {
    return { text: apart, isApart: true };
  }
  const isLong = source.length + now.length > LONGEST;
  const joined = base === null || isLong ? null : mergeAdditions(base, source, now);
  return joined === null ? null : { text: joined, isApart: false };
}
