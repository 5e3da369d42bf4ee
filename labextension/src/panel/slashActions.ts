import type { TranslationBundle } from '@jupyterlab/translation';
import { notifyErrors } from '../wording/notifyErrors';
import type { Mode } from '../api/protocol';
import { titleOf } from '../api/request';
import type { Assistant } from '../chat/assistant';
import type { ConversationUsage } from '../chat/usage';
import type { ISlashCommand } from '../composer/slash';
import { modelName } from '../wording/callDescriptions';
import { modes } from '../wording/modes';

/** The commands of the message field that act in the panel instead of sending a question. */
export function actions(
  assistant: Assistant,
  usage: ConversationUsage,
  trans: TranslationBundle
): ISlashCommand[] {
  return [
    {
      name: 'clear',
      description: trans.__('Start a new conversation'),
      run: () => {
        assistant.newConversation();
        assistant.draft.clear();
      }
    },
    {
      name: 'undo',
      description: trans.__('Undo the changes of the last answer'),
      run: () =>
        void assistant.undoLastTurn().then(remarks => {
          if (remarks) {
            const nothing = trans.__('The last answer has no changes to undo.');
            assistant.draft.refuse([nothing, ...remarks].join(' '));
          }
        })
    },
    {
      name: 'compact',
      description: trans.__('Summarise the conversation to free up context'),
      run: () => {
        usage.show();
        void usage.compact();
      }
    },
    {
      name: 'export',
      description: trans.__('Download this conversation as Markdown'),
      run: () => {
        if (assistant.state.conversation.state.messages.length) {
          void exportInFront(assistant, trans);
        } else {
          assistant.draft.refuse(trans.__('This conversation has no messages to export yet.'));
        }
      }
    },
    {
      name: 'help',
      description: trans.__('Help and shortcuts'),
      run: () => assistant.setView('help')
    },
    {
      name: 'model',
      description: trans.__('Choose a model'),
      run: value => {
        if (!value) {
          assistant.setView('models');
        } else if (assistant.models.isPossible(value)) {
          assistant.choose({ model: value });
        } else {
          assistant.draft.refuse(
            trans.__(
              '“%1” is not a model here. Models are: %2. “Other model…” takes more.',
              value,
              modelNames(assistant)
            )
          );
        }
      },
      values: () =>
        assistant.models.offered.map(({ model, credentials }) => ({
          value: model,
          description: credentials
            ? modelName(model)
            : trans.__('%1 (no key yet)', modelName(model))
        }))
    },
    {
      name: 'mode',
      description: trans.__('Choose a mode'),
      run: value => {
        const known = Object.keys(modes(trans));
        if (known.includes(value)) {
          assistant.setMode(value as Mode);
        } else {
          const names = known.join(', ');
          assistant.draft.refuse(trans.__('“%1” is not a mode. Modes are: %2.', value, names));
        }
      },
      values: () =>
        Object.entries(modes(trans)).map(([value, { name, meaning }]) => ({
          value,
          description: `${name}: ${meaning}`
        }))
    }
  ];
}

/** "anthropic:claude-sonnet-5-5, ollama:…": the models offered, and the providers without a list of their models. */
function modelNames({ models }: Assistant): string {
  const providers = models.state.models?.providers ?? [];
  const unlisted = providers.filter(provider => !provider.models.length);
  const names = models.offered.map(({ model }) => model);
  return [...names, ...unlisted.map(({ name }) => `${name}:…`)].join(', ');
}

/** Download the conversation in front as Markdown. */
export function exportInFront(
  { listing, state }: Assistant,
  trans: TranslationBundle
): Promise<void> {
  const { conversation } = state;
  const { messages, title } = conversation.state;
  return notifyErrors(() => listing.export(conversation.id, titleOf(title, messages)), trans);
}
