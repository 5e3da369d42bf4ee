import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ToolbarButton } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';
import { assistantIcon } from '../components/icons';

/** A labelled button in the toolbar of each notebook that opens or closes the panel. */
export function addToolbarButton(
  toolbars: IToolbarWidgetRegistry,
  shell: JupyterFrontEnd.IShell,
  panel: Widget,
  open: () => void,
  trans: TranslationBundle
): void {
  toolbars.addFactory('Notebook', 'jupyter-agent', () => {
    return new ToolbarButton({
      label: trans.__('Assistant'),
      icon: assistantIcon,
      tooltip: trans.__('Show or hide the assistant'),
      onClick: () => {
        if (!panel.isVisible || !collapse(shell, panel)) {
          open();
        }
      }
    });
  });
}

interface ICollapsing {
  collapseLeft(): void;
  collapseRight(): void;
}

/** Collapse the side area that the panel is in; false if it is elsewhere, such as in the main area. */
function collapse(shell: JupyterFrontEnd.IShell, panel: Widget): boolean {
  const area = ['left', 'right'].find(side => [...shell.widgets(side)].includes(panel));
  if (!area || !collapses(shell)) {
    return false;
  }
  if (area === 'left') {
    shell.collapseLeft();
  } else {
    shell.collapseRight();
  }
  return true;
}

/** The shells of JupyterLab and Notebook 7 can, but their common interface does not declare it. */
function collapses(shell: object): shell is ICollapsing {
  return 'collapseLeft' in shell && 'collapseRight' in shell;
}
