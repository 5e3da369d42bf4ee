import type { YNotebook } from '@jupyter/ydoc';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import * as Y from 'yjs';
import type { FileAccess } from './saves';

type Context = DocumentRegistry.IContext<INotebookModel>;

/**
 * Bring a notebook without unsaved work and its file together, where the file is not as JupyterLab knows it.
 *
 * A later file is loaded. JupyterLab's own reload would replace everything when the file has come; here what is typed
 * while it is on its way is kept, and where more than that is done (a cell is made, split, moved) the file is not
 * loaded. An earlier one that this page saved itself was left behind by a save that went elsewhere: it is saved again.
 * With any other file the notebook counts as changed, so that the user decides when it is saved.
 */
export async function reload(
  context: Context,
  contents: Contents.IManager,
  file: FileAccess,
  autosave: () => boolean
): Promise<void> {
  const isBehind = await file.inTurn(() => takeIn(context, contents, file));
  if (isBehind && autosave()) {
    await context.save();
  } else if (isBehind) {
    context.model.dirty = true;
  }
}

/** Returns whether the file is an earlier state that this page saved. */
async function takeIn(
  context: Context,
  contents: Contents.IManager,
  file: FileAccess
): Promise<boolean> {
  const { model } = context;
  if (model.dirty) {
    return false;
  }
  const base = sources(model);
  const typing = new TypingOnly(model);
  let onDisk: Contents.IModel;
  try {
    onDisk = await contents.get(context.path, { type: 'notebook', content: true, hash: true });
  } finally {
    typing.dispose();
  }
  // From here to the end is one tick, in which nobody types.
  const known = context.contentsModel;
  if (context.isDisposed || !known || onDisk.hash === known.hash) {
    return false;
  }
  const isLater = Date.parse(onDisk.last_modified) > Date.parse(known.last_modified);
  const isOwn = file.hasSaved(onDisk.hash);
  if (isOwn && !isLater) {
    file.acknowledge(onDisk);
    return true;
  }
  const typed = [...sources(model)].filter(([id, text]) => base.get(id) !== text);
  const there = new Set((onDisk.content as INotebookContent).cells.map(({ id }) => id));
  if (isOwn || !isLater || !typing.isAll || typed.some(([id]) => !there.has(id))) {
    model.dirty = true;
    return false;
  }
  model.fromJSON(onDisk.content as INotebookContent);
  for (const [id, text] of typed) {
    const cell = [...model.cells].find(cell => cell.id === id)?.sharedModel;
    cell?.setSource(carryOver(base.get(id) ?? '', text, cell.getSource()));
  }
  file.acknowledge(onDisk);
  model.dirty = typed.length > 0;
  return false;
}

/** Watches whether anything but texts of cells is changed in a notebook. */
class TypingOnly {
  constructor(model: INotebookModel) {
    this._ydoc = (model.sharedModel as YNotebook).ydoc;
    this._ydoc.on('afterTransaction', this._watch);
  }

  /** Whether nothing else was changed until now. */
  isAll = true;

  dispose(): void {
    this._ydoc.off('afterTransaction', this._watch);
  }

  private readonly _watch = ({ changed }: Y.Transaction): void => {
    const state: unknown = this._ydoc.getMap('state'); // of this page, and in no file
    this.isAll &&= [...changed.keys()].every((type: unknown) => type === state || isSource(type));
  };

  private readonly _ydoc: Y.Doc;
}

function isSource(type: unknown): boolean {
  return (
    type instanceof Y.Text && type.parent instanceof Y.Map && type.parent.get('source') === type
  );
}

function sources(model: INotebookModel): Map<string, string> {
  return new Map([...model.cells].map(cell => [cell.id, cell.sharedModel.getSource()]));
}

/** What was typed into `base` (so that it became `typed`), done to `other`, which also came from `base`. */
export function carryOver(base: string, typed: string, other: string): string {
  const own = change(base, typed);
  const theirs = change(base, other);
  if (own.end <= theirs.start) {
    return splice(other, own);
  }
  const grown = other.length - base.length;
  const start = Math.max(own.start, theirs.end) + grown;
  return splice(other, { ...own, start, end: Math.max(own.end, theirs.end) + grown });
}

interface IReplacement {
  start: number;
  end: number;
  text: string;
}

/** The one replacement that makes `after` of `before`. */
function change(before: string, after: string): IReplacement {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) {
    start++;
  }
  let same = 0;
  while (same < most - start && before.at(-1 - same) === after.at(-1 - same)) {
    same++;
  }
  return { start, end: before.length - same, text: after.slice(start, after.length - same) };
}

function splice(text: string, { start, end, text: by }: IReplacement): string {
  return text.slice(0, start) + by + text.slice(end);
}
