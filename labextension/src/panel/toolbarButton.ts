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
      onClick: () => (panel.isVisible && collapses(shell) ? shell.collapseRight() : open())
    });
  });
}

interface ICollapsing {
  collapseRight(): void;
}

/** The shells of JupyterLab and Notebook 7 can, but their common interface does not declare it. */
function collapses(shell: object): shell is ICollapsing {
  return 'collapseRight' in shell;
}
