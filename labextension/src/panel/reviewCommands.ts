import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ChangeWalk } from '../review/changeWalk';
import type { ReviewActions } from '../review/reviewActions';

export namespace ReviewCommandIDs {
  export const next = 'jupyter-agent:next-change';
  export const previous = 'jupyter-agent:previous-change';
  export const keep = 'jupyter-agent:keep-change';
  export const undo = 'jupyter-agent:undo-change';
  export const keepAll = 'jupyter-agent:keep-all';
  export const undoAll = 'jupyter-agent:undo-all';
}

interface IReviewCommandOptions {
  commands: CommandRegistry;
  walk: ChangeWalk;
  actions: ReviewActions;
  palette: ICommandPalette | null;
  trans: TranslationBundle;
}

/** The commands that move through the assistant's changes and decide on them. */
export function addReviewCommands(options: IReviewCommandOptions): void {
  const { commands, walk, actions, palette, trans } = options;
  const add = (id: string, label: string, caption: string, execute: () => Promise<void>): void => {
    commands.addCommand(id, {
      label,
      caption,
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => walk.state.cells.length > 0,
      execute
    });
    palette?.addItem({ command: id, category: trans.__('Assistant') });
  };
  walk.changed.connect(() => {
    Object.values(ReviewCommandIDs).forEach(id => commands.notifyCommandChanged(id));
  });

  add(
    ReviewCommandIDs.next,
    trans.__('Next Change'),
    trans.__('Show the next change of the assistant'),
    () => walk.go(1)
  );
  add(
    ReviewCommandIDs.previous,
    trans.__('Previous Change'),
    trans.__('Show the previous change of the assistant'),
    () => walk.go(-1)
  );
  add(
    ReviewCommandIDs.keep,
    trans.__('Keep the Change'),
    trans.__('Keep the change in this cell and show the next one'),
    () => actions.decide('keep')
  );
  add(
    ReviewCommandIDs.undo,
    trans.__('Undo the Change'),
    trans.__('Undo the change in this cell and show the next one'),
    () => actions.decide('undo')
  );
  add(
    ReviewCommandIDs.keepAll,
    trans.__('Keep All Changes'),
    trans.__('Keep all changes of the assistant'),
    () => actions.keep(actions.waiting())
  );
  add(
    ReviewCommandIDs.undoAll,
    trans.__('Undo All Changes'),
    trans.__('Undo all changes of the assistant, except where you edited since'),
    () => actions.undo(actions.waiting())
  );
}
