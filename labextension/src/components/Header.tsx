import { addIcon, historyIcon, settingsIcon } from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import { notifyErrors } from '../wording/notifyErrors';
import type { AgentMessage } from '../api/protocol';
import { titleOf } from '../api/request';
import { useAssistant, useConversation, useServices } from './services';

/** The title of the conversation, and buttons to other views. */
export function Header(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { conversation, view } = useAssistant();
  const state = useConversation();
  const [editing, setEditing] = React.useState(false);
  const title = titleOf(state.title, state.messages) || trans.__('New conversation');
  const repeated = state.messages.length <= 2 && repeatsQuestion(title, state.messages[0]);
  const rename = (name: string): void => {
    setEditing(false);
    if (name.trim() && name !== title) {
      void notifyErrors(() => conversation.rename(name.trim()), trans);
    }
  };
  return (
    <div className="jp-Agent-header">
      {editing ? (
        <input
          className="jp-mod-styled"
          aria-label={trans.__('Title')}
          autoFocus
          defaultValue={title}
          onBlur={event => rename(event.target.value)}
          onKeyDown={event => {
            if (event.nativeEvent.isComposing) {
              return; // the key ends a composition, not the renaming
            }
            if (event.key === 'Enter' || event.key === 'Escape') {
              event.preventDefault(); // Escape cancels the renaming, not the turn
              rename(event.key === 'Enter' ? event.currentTarget.value : title);
            }
          }}
        />
      ) : (
        <h2 title={title} onDoubleClick={() => setEditing(state.messages.length > 0)}>
          {repeated ? trans.__('Assistant') : title}
        </h2>
      )}
      <IconButton
        icon={addIcon}
        label={trans.__('New conversation')}
        onClick={() => assistant.newConversation()}
      />
      <IconButton
        icon={historyIcon}
        label={trans.__('Conversations')}
        pressed={view === 'conversations'}
        onClick={() =>
          view === 'conversations'
            ? assistant.setView('conversation')
            : void notifyErrors(() => assistant.listConversations(), trans)
        }
      />
      <IconButton
        icon={settingsIcon}
        label={trans.__('Settings')}
        pressed={view === 'models'}
        onClick={() => assistant.setView(view === 'models' ? 'conversation' : 'models')}
      />
    </div>
  );
}

/** Whether a title is the start of the question right below it. */
function repeatsQuestion(title: string, question: AgentMessage | undefined): boolean {
  const asked = question ? titleOf(null, [question]) : '';
  return asked !== '' && (asked.startsWith(title.replace(/(…|\.\.\.)$/, '')) || title === asked);
}

interface IIconButtonProps {
  icon: LabIcon;
  label: string;
  pressed?: boolean;
  onClick: () => void;
}

export function IconButton({ icon, label, pressed, onClick }: IIconButtonProps): React.JSX.Element {
  return (
    <button
      className="jp-Agent-iconButton"
      aria-label={label}
      aria-pressed={pressed}
      title={label}
      onClick={onClick}
    >
      <icon.react tag="span" />
    </button>
  );
}
