import type { Notebook } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';

/**
 * Make a cell active and bring it into view, out of a collapsed section; the focus goes with it if it was in the
 * notebook. `scrollToCell` would also open rendered Markdown for editing.
 */
export async function showCell(content: Notebook, index: number): Promise<void> {
  const hasFocus = (): boolean =>
    document.activeElement === document.body || content.node.contains(document.activeElement);
  const hadFocus = hasFocus();
  const moves = content.activeCellIndex !== index;
  NotebookActions.expandParent(content.widgets[index], content);
  content.activeCellIndex = index;
  await layOut(content, index);
  if (hadFocus && moves && content.mode === 'command') {
    focusNotebook(content);
  }
  await content.scrollToItem(index, 'smart').catch(() => undefined); // it is hidden
  await new Promise(requestAnimationFrame);
  if (hadFocus && hasFocus() && content.activeCellIndex === index) {
    content.activate();
  }
}

/**
 * Lay a cell out now. JupyterLab does so when the page is idle, from the first cell on, which takes long in a large
 * notebook, and scrolls to no cell before; with windowingMode "full" it lays out those in view.
 */
async function layOut({ layout, notebookConfig, widgets }: Notebook, index: number): Promise<void> {
  const cell = widgets[index];
  if (cell.isPlaceholder() && notebookConfig.windowingMode !== 'full') {
    cell.dataset.windowedListIndex = `${index}`;
    layout.insertWidget(index, cell);
    await cell.ready;
  }
}

/** With windowingMode "full", a cell out of view is removed from the page, and its focus with it: keys would reach nothing. */
function focusNotebook({ node }: Notebook): void {
  if (!node.hasAttribute('tabindex')) {
    node.tabIndex = -1;
  }
  node.focus({ preventScroll: true });
}

/** Leave the editor of a cell, so that the cell can be replaced or removed. */
export function leaveEditor(content: Notebook | undefined, cellId: string): void {
  if (content?.mode === 'edit' && content.activeCell?.model.id === cellId) {
    content.mode = 'command';
  }
}
