import type { YNotebook } from '@jupyter/ydoc';
import type { Cell } from '@jupyterlab/cells';
import { MarkdownCell } from '@jupyterlab/cells';
import type { INotebookModel, Notebook } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Transaction } from 'yjs';
import { PageCells } from './pageCells';

/**
 * Shows the cells of a collapsed section whose heading someone else has deleted, moved or turned into something else.
 *
 * JupyterLab leaves them hidden, and the page has nothing that would show them.
 */
export function showUncovered(model: INotebookModel, views: () => Notebook[]): void {
  const { ydoc } = model.sharedModel as YNotebook;
  const before = new WeakMap<Transaction, [Notebook, Cell[]][]>(); // observers may begin others in between
  ydoc.on('beforeTransaction', transaction => {
    if (!transaction.local || transaction.origin instanceof PageCells) {
      before.set(
        transaction,
        views().map(view => [view, [...covered(view).values()].flat()])
      );
    }
  });
  ydoc.on('afterTransaction', transaction => {
    for (const [view, cells] of before.get(transaction) ?? []) {
      void (cells.length && show(view, cells));
    }
  });
}

/** Show those of `cells` that no collapsed heading covers any more, and count the others at their headings. */
async function show(view: Notebook, cells: readonly Cell[]): Promise<void> {
  const texts = view.widgets.filter(cell => cell instanceof MarkdownCell);
  await Promise.all(texts.map(cell => cell.getHeadings()));
  const sections = covered(view);
  const hidden = new Set([...sections.values()].flat());
  cells.filter(cell => !hidden.has(cell)).forEach(cell => cell.setHidden(false));
  for (const text of texts.filter(cell => cell.headingCollapsed && !hidden.has(cell))) {
    text.numberChildNodes = sections.get(text)?.length ?? 0; // "2 cells hidden"
  }
}

/** The cells that collapsed headings hide, by the outermost heading. */
function covered({ widgets }: Notebook): Map<Cell, Cell[]> {
  const sections = new Map<Cell, Cell[]>();
  let hidden: Cell[] | null = null;
  let level = 0;
  for (const cell of widgets) {
    const { isHeading, headingLevel, collapsed } = NotebookActions.getHeadingInfo(cell);
    if (hidden && !(isHeading && headingLevel <= level)) {
      hidden.push(cell);
      continue;
    }
    hidden = isHeading && collapsed ? [] : null;
    if (hidden) {
      level = headingLevel;
      sections.set(cell, hidden);
    }
  }
  return sections;
}
