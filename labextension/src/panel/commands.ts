import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { notifyErrors } from '../wording/notifyErrors';
import type { Attachment } from '../api/protocol';
import type { IRequest } from '../api/request';
import type { Assistant } from '../chat/assistant';
import { MODES } from '../chat/modes';
import { assistantIcon } from '../components/icons';
import { cellCommands, openCellMenu } from './cellMenu';
import type { CellPrompts } from '../prompt/cellPrompts';
import { mayFocusAfter } from '../components/lateFocus';
import type { AssistantPanel } from './panel';
import { exportInFront } from './slashActions';

export namespace CommandIDs {
  export const open = 'jupyter-agent:open';
  export const send = 'jupyter-agent:send';
  export const stop = 'jupyter-agent:stop';
  export const newConversation = 'jupyter-agent:new-conversation';
  export const conversations = 'jupyter-agent:conversations';
  export const exportConversation = 'jupyter-agent:export';
  export const undoTurn = 'jupyter-agent:undo-turn';
  export const sendSelection = 'jupyter-agent:send-selection';
  export const cellMenu = 'jupyter-agent:cell-menu';
  export const askInCell = 'jupyter-agent:ask-in-cell';
  export const help = 'jupyter-agent:help';
}

interface ICommandOptions {
  app: JupyterFrontEnd;
  assistant: Assistant;
  panel: AssistantPanel;
  prompts: CellPrompts;
  palette: ICommandPalette | null;
  trans: TranslationBundle;
}

interface ISendArguments extends Pick<IRequest, 'text' | 'mode' | 'model' | 'notebook'> {
  cells?: string[];
}

const NO_ARGUMENTS = { args: { type: 'object', properties: {} } };

const SEND_ARGUMENTS = {
  args: {
    type: 'object',
    properties: {
      text: { type: 'string', description: 'What to ask' },
      mode: {
        type: 'string',
        enum: [...MODES],
        description: 'What the assistant may do without asking; by default what the user chose'
      },
      model: { type: 'string', description: 'provider:model; by default what the user chose' },
      notebook: {
        type: 'string',
        description: 'The path of the notebook it is about; by default the one in front'
      },
      cells: {
        type: 'array',
        items: { type: 'string' },
        description: 'Ids of the cells that go along; by default the active one'
      }
    },
    required: ['text']
  }
};

interface IAskInCellArguments {
  text?: string;
  cell?: string;
}

const ASK_IN_CELL_ARGUMENTS = {
  args: {
    type: 'object',
    properties: {
      text: {
        type: 'string',
        description: 'The text of the field; by default its previous content'
      },
      cell: {
        type: 'string',
        description: 'The id of a cell of the notebook in front; by default the active one'
      }
    }
  }
};

/** The commands of the assistant, for menus, the palette, shortcuts and other extensions. */
export function addCommands(options: ICommandOptions): void {
  const { app, assistant, panel, prompts, palette, trans } = options;
  const { commands, shell } = app;
  const category = trans.__('Assistant');
  const add = (id: string, options: CommandRegistry.ICommandOptions): void => {
    commands.addCommand(id, { describedBy: NO_ARGUMENTS, ...options });
    palette?.addItem({ command: id, category });
  };
  const open = async (): Promise<void> => {
    shell.activateById(panel.id);
    if (await mayFocusAfter(waitForFocusReturn())) {
      await panel.focusMessage();
    }
  };
  const inNotebook = (): boolean => assistant.draft.here !== null;

  add(CommandIDs.open, {
    label: trans.__('Open the Assistant'),
    caption: trans.__('Show the assistant and write to it'),
    icon: assistantIcon,
    execute: open
  });
  add(CommandIDs.newConversation, {
    label: trans.__('New Conversation'),
    caption: trans.__('Start a new conversation with the assistant'),
    execute: async () => {
      assistant.newConversation();
      await open();
    }
  });
  add(CommandIDs.conversations, {
    label: trans.__('Show Conversations'),
    caption: trans.__('List the conversations with the assistant'),
    execute: async () => {
      shell.activateById(panel.id);
      await notifyErrors(() => assistant.listConversations(), trans);
    }
  });
  add(CommandIDs.exportConversation, {
    label: trans.__('Export the Conversation'),
    caption: trans.__('Download the conversation in front as Markdown'),
    isEnabled: () => assistant.state.conversation.state.messages.length > 0,
    execute: () => exportInFront(assistant, trans)
  });
  add(CommandIDs.stop, {
    label: trans.__('Stop the Assistant'),
    caption: trans.__('Stop the answer that is being written'),
    isEnabled: () => assistant.state.conversation.busy,
    execute: () => assistant.state.conversation.stop()
  });
  add(CommandIDs.undoTurn, {
    label: trans.__('Undo the Last Answer'),
    caption: trans.__('Undo the changes of the last answer, except where you edited since'),
    execute: () => assistant.undoLastTurn()
  });
  add(CommandIDs.sendSelection, {
    label: trans.__('Ask About the Selection'),
    caption: trans.__('Write a question about the selected text or the active cell'),
    isEnabled: inNotebook,
    execute: open // every question includes the selection
  });
  add(CommandIDs.help, {
    label: trans.__('Help on the Assistant'),
    caption: trans.__('Help and shortcuts'),
    execute: async () => {
      assistant.setView('help');
      await open();
    }
  });
  for (const { id, text, suits, ...labels } of cellCommands(trans)) {
    add(id, {
      ...labels,
      isEnabled: () => inNotebook() && suits?.(assistant.draft) !== false,
      execute: () => commands.execute(CommandIDs.send, { text })
    });
  }
  add(CommandIDs.askInCell, {
    label: trans.__('Ask About This Cell…'),
    caption: trans.__('Ask the assistant about the active cell, in the cell'),
    describedBy: ASK_IN_CELL_ARGUMENTS,
    isEnabled: inNotebook,
    execute: async args => {
      const { cell, text } = args as IAskInCellArguments;
      const prompt = prompts.open(cell, text); // further typing goes into it
      if (await mayFocusAfter(waitForFocusReturn())) {
        prompt?.focus();
      }
    }
  });
  // These two are not in the palette: one needs arguments, the other a position.
  commands.addCommand(CommandIDs.send, {
    label: trans.__('Ask the Assistant'),
    caption: trans.__('Ask the assistant about the notebook in front'),
    describedBy: SEND_ARGUMENTS,
    execute: async args => {
      const { text, cells, ...options } = args as unknown as ISendArguments;
      await open();
      await assistant.ask(text, { ...options, ...attachCells(assistant, cells, options.notebook) });
    }
  });
  commands.addCommand(CommandIDs.cellMenu, {
    label: '',
    caption: trans.__('Ask the assistant about this cell'),
    describedBy: NO_ARGUMENTS,
    icon: assistantIcon,
    isEnabled: inNotebook,
    execute: () =>
      openCellMenu(
        commands,
        trans,
        document.querySelector(`.jp-Cell.jp-mod-active [data-command='${CommandIDs.cellMenu}']`)
      )
  });
}

/** The named cells as attachments. */
function attachCells(
  { draft }: Assistant,
  cells: string[] | undefined,
  notebook = draft.here?.notebook
): Partial<IRequest> {
  if (!cells || !notebook) {
    return {};
  }
  const context = cells.map((cell_id): Attachment => ({ type: 'cell', notebook, cell_id }));
  return { notebook, context };
}

/** After a palette command the notebook takes the focus back for two frames: wait for that. */
async function waitForFocusReturn(): Promise<void> {
  for (let frame = 0; frame < 3; frame++) {
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
}
