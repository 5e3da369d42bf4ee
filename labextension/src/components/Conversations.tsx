import { closeIcon } from '@jupyterlab/ui-components';
import { Time } from '@jupyterlab/coreutils';
import * as React from 'react';
import { IconButton } from './Header';
import { useAssistant, useServices } from './services';

/** The conversations of the user, newest first. */
export function Conversations(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { conversation, conversations } = useAssistant();
  return (
    <div className="jp-Agent-page">
      <input
        className="jp-mod-styled"
        type="search"
        aria-label={trans.__('Search conversations')}
        placeholder={trans.__('Search')}
        onChange={event => void assistant.listConversations(event.target.value)}
      />
      {!conversations.length && <p className="jp-Agent-notice">{trans.__('None yet.')}</p>}
      <ul className="jp-Agent-conversations">
        {conversations.map(({ id, title, notebook, updated, state }) => (
          <li key={id} aria-current={id === conversation.id}>
            <button className="jp-Agent-conversation" onClick={() => assistant.show(id)}>
              <span>{title || trans.__('Untitled')}</span>
              <span className="jp-Agent-note">
                {[
                  stateWord(state, trans.__('running'), trans.__('waits for you')),
                  notebook,
                  Time.formatHuman(updated)
                ]
                  .filter(Boolean)
                  .join(' · ')}
              </span>
            </button>
            <IconButton
              icon={closeIcon}
              label={trans.__('Delete “%1”', title || trans.__('Untitled'))}
              onClick={() => void assistant.removeConversation(id)}
            />
          </li>
        ))}
      </ul>
    </div>
  );
}

function stateWord(state: string | null, running: string, waiting: string): string {
  return state === 'running' ? running : state === 'waiting' ? waiting : '';
}
