import type { YNotebook } from '@jupyter/ydoc';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type * as Y from 'yjs';
import { mergeAdded, mergeText } from '../bridge/merge';
import { Store } from '../store';
import type { IMergeCell } from '../tokens';

/** Where the server puts them in the document of a room. (`carriers/room_history.py`) */
const OFFERS = 'jupyter_agent_unsaved';

/** A cell as the document of a room does not have it. */
interface IOffer {
  cell: IMergeCell;
  /** What it said when it was last saved; null if it was not there. */
  base: string | null;
  /** Ids of the cells that it was below, the nearest first. */
  above: readonly string[];
  /** Its file has it so, and it was changed in the document as well; else it was typed and not saved. */
  cause?: 'file';
}

/** What can be put into a room. */
export interface IUnsavedText extends IOffer {
  /** The path of the notebook. */
  notebook: string;
  key: string;
}

type Context = DocumentRegistry.IContext<INotebookModel>;

/** What of the open notebooks can be put back. Everybody in a room has the same, until one of them decides. */
export class UnsavedTexts extends Store<readonly IUnsavedText[]> {
  constructor(notebooks: INotebookTracker) {
    super([]);
    notebooks.widgetAdded.connect(this._watch, this);
    notebooks.forEach(panel => this._watch(notebooks, panel));
  }

  /** It is decided. */
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

/** A cell's text with what was not saved in it. */
export interface IWhole {
  text: string;
  /** Whether both are in lines of their own: else what was typed since comes right behind it, be it the end of a word. */
  isApart: boolean;
}

/** A longer text is compared by lines only. */
const LONGEST = 10_000;

/** What the cell would say with what was not saved; null where other text took its place meanwhile. */
export function withUnsaved({ base, cell: { source } }: IUnsavedText, now: string): IWhole | null {
  const apart = mergeText(base ?? undefined, source, now);
  if (apart !== null) {
    return { text: apart, isApart: true };
  }
  const isLong = source.length + now.length > LONGEST;
  const joined = base === null || isLong ? null : mergeAdded(base, source, now);
  return joined === null ? null : { text: joined, isApart: false };
}
