import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';

type Context = DocumentRegistry.IContext<INotebookModel>;

/**
 * Load a notebook without unsaved work anew from disk, and keep what is typed while the file is on its way:
 * JupyterLab's own reload replaces everything at once when the file has come.
 */
export async function reload(context: Context): Promise<void> {
  const { model } = context;
  if (model.dirty) {
    return;
  }
  const base = sources(model);
  const load = model.fromJSON.bind(model);
  let kept = false;
  model.fromJSON = content => {
    const typed = [...sources(model)].filter(([id, text]) => base.get(id) !== text);
    load(content);
    for (const [id, text] of typed) {
      const cell = [...model.cells].find(cell => cell.id === id)?.sharedModel;
      cell?.setSource(carryOver(base.get(id) ?? '', text, cell.getSource()));
      kept ||= cell !== undefined;
    }
  };
  try {
    await context.revert();
  } finally {
    model.fromJSON = load;
  }
  if (kept) {
    model.dirty = true;
  }
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
