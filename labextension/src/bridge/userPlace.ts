import type { Notebook } from '@jupyterlab/notebook';

/**
 * Change a notebook under the user's hands: the same cell stays active (JupyterLab 4.6 loses it if cells are added and
 * removed at once), and a list of completions for a text that has changed is closed.
 */
export function changeUnderUser(notebook: Notebook | undefined, change: () => void): void {
  const active = notebook?.activeCell?.model;
  const text = active?.sharedModel.getSource();
  change();
  if (!notebook || !active) {
    return;
  }
  if (notebook.activeCell?.model.id !== active.id) {
    const index = notebook.widgets.findIndex(cell => cell.model.id === active.id);
    if (index >= 0) {
      notebook.activeCellIndex = index;
    }
  }
  if (notebook.activeCell?.model.sharedModel.getSource() !== text) {
    closeCompletions();
  }
}

/**
 * Accepting a completion replaces the text between offsets from before the change: other text, by now. A click outside
 * of the list is the only way to close it that other extensions have.
 */
function closeCompletions(): void {
  if (document.querySelector('.jp-Completer:not(.lm-mod-hidden)')) {
    document.documentElement.dispatchEvent(new PointerEvent('pointerdown'));
  }
}
