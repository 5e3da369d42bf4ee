import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';
import type { Draft } from '../composer/draft';

interface ICellCommand {
  id: string;
  label: string;
  caption: string;
  /** The question. */
  text: string;
  /** Whether it makes sense for the active cell; by default for every cell. */
  suits?: (draft: Draft) => boolean;
}

/** The assistant's commands for the active cell. */
export function cellCommands(trans: TranslationBundle): ICellCommand[] {
  return [
    {
      id: 'jupyter-agent:explain-cell',
      label: trans.__('Explain This Cell'),
      caption: trans.__('Ask the assistant to explain the active cell'),
      text: trans.__('Explain this cell.')
    },
    {
      id: 'jupyter-agent:fix-error',
      label: trans.__('Fix the Error in This Cell'),
      caption: trans.__('Ask the assistant to find and fix the error in the active cell'),
      text: trans.__('Find out why this cell fails, and fix it.'),
      suits: draft => draft.hasFailed
    },
    {
      id: 'jupyter-agent:refactor-cell',
      label: trans.__('Refactor This Cell'),
      caption: trans.__('Ask the assistant to make the active cell clearer'),
      text: trans.__('Make this cell clearer and simpler without changing what it does.')
    },
    {
      id: 'jupyter-agent:test-cell',
      label: trans.__('Add a Test for This Cell'),
      caption: trans.__('Ask the assistant to add a cell that tests the active one'),
      text: trans.__('Add a cell below this one that tests it with a few telling cases.')
    },
    {
      id: 'jupyter-agent:continue-from-cell',
      label: trans.__('Continue From Here'),
      caption: trans.__('Ask the assistant to take the next step below the active cell'),
      text: trans.__('Continue from this cell: add the next step that makes sense below it.')
    }
  ];
}

/** Show the commands for the active cell, under the clicked button. */
export function openCellMenu(
  commands: CommandRegistry,
  trans: TranslationBundle,
  button: Element | null
): void {
  const menu = new Menu({ commands });
  cellCommands(trans).forEach(({ id }) => menu.addItem({ command: id }));
  menu.addItem({ command: 'jupyter-agent:ask-in-cell' });
  menu.aboutToClose.connect(() => requestAnimationFrame(() => menu.dispose())); // the chosen command runs first
  const box = (button ?? document.body).getBoundingClientRect();
  menu.open(box.left, box.bottom);
}
