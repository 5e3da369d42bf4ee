import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Assistant } from './assistant';
import { assistantIcon } from './icons';
import type { AssistantPanel } from './panel';
import type { Mode } from './protocol';

export namespace CommandIDs {
  export const open = 'jupyter-agent:open';
  export const send = 'jupyter-agent:send';
  export const stop = 'jupyter-agent:stop';
  export const newConversation = 'jupyter-agent:new-conversation';
  export const undoTurn = 'jupyter-agent:undo-turn';
  export const sendSelection = 'jupyter-agent:send-selection';
  export const explainCell = 'jupyter-agent:explain-cell';
  export const fixError = 'jupyter-agent:fix-error';
}

interface ICommandOptions {
  app: JupyterFrontEnd;
  assistant: Assistant;
  panel: AssistantPanel;
  palette: ICommandPalette | null;
  trans: TranslationBundle;
}

interface ISendArguments {
  text: string;
  mode?: Mode;
  model?: string;
}

const NO_ARGUMENTS = { args: { type: 'object', properties: {} } };

const SEND_ARGUMENTS = {
  args: {
    type: 'object',
    properties: {
      text: { type: 'string', description: 'What to ask' },
      mode: { type: 'string', enum: ['read', 'ask', 'edit', 'auto'] },
      model: { type: 'string', description: 'provider:model' }
    },
    required: ['text']
  }
};

/** What the assistant can be told to do from the palette, by shortcuts and by other extensions. */
export function addCommands({ app, assistant, panel, palette, trans }: ICommandOptions): void {
  const category = trans.__('Assistant');
  const add = (id: string, options: CommandRegistry.ICommandOptions): void => {
    app.commands.addCommand(id, { describedBy: NO_ARGUMENTS, ...options });
    palette?.addItem({ command: id, category });
  };
  const open = async (): Promise<void> => {
    app.shell.activateById(panel.id);
    await settled();
    await panel.focusMessage();
  };
  const askOpenly = async (text: string): Promise<void> => {
    await open();
    await assistant.ask(text);
  };
  const inNotebook = (): boolean => assistant.draft.state.place !== null;

  add(CommandIDs.open, {
    label: trans.__('Open the Assistant'),
    caption: trans.__('Show the assistant and write to it'),
    icon: assistantIcon,
    execute: open
  });
  add(CommandIDs.newConversation, {
    label: trans.__('New Conversation'),
    caption: trans.__('Begin a new conversation with the assistant'),
    execute: async () => {
      assistant.newConversation();
      await open();
    }
  });
  add(CommandIDs.stop, {
    label: trans.__('Stop the Assistant'),
    caption: trans.__('Stop the turn that runs'),
    isEnabled: () => assistant.state.conversation.busy,
    execute: () => assistant.state.conversation.stop()
  });
  add(CommandIDs.undoTurn, {
    label: trans.__('Undo the Last Turn'),
    caption: trans.__('Take back what the last turn changed, except what you changed since'),
    execute: () => assistant.undoLastTurn()
  });
  add(CommandIDs.sendSelection, {
    label: trans.__('Ask About the Selection'),
    caption: trans.__('Write a question about the selected text or the active cell'),
    isEnabled: inNotebook,
    execute: open // what is selected goes with every question
  });
  add(CommandIDs.explainCell, {
    label: trans.__('Explain This Cell'),
    caption: trans.__('Ask the assistant to explain the active cell'),
    isEnabled: inNotebook,
    execute: () => askOpenly(trans.__('Explain this cell.'))
  });
  add(CommandIDs.fixError, {
    label: trans.__('Fix the Error in This Cell'),
    caption: trans.__('Ask the assistant to find and fix the error in the active cell'),
    isEnabled: inNotebook,
    execute: () => askOpenly(trans.__('Find out why this cell fails, and fix it.'))
  });
  // Not in the palette: it needs arguments.
  app.commands.addCommand(CommandIDs.send, {
    label: trans.__('Ask the Assistant'),
    caption: trans.__('Ask the assistant about the notebook in front'),
    describedBy: SEND_ARGUMENTS,
    execute: async args => {
      const { text, ...options } = args as unknown as ISendArguments;
      app.shell.activateById(panel.id);
      await assistant.ask(text, options);
    }
  });
}

/** After a command of the palette the notebook takes the focus back for two frames. */
async function settled(): Promise<void> {
  for (let frame = 0; frame < 3; frame++) {
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
}
