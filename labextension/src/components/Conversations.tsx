import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Time } from '@jupyterlab/coreutils';
import { closeIcon, editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { IConversationSummary } from '../protocol';
import { IconButton } from './Header';
import { useAssistant, useServices } from './services';

/** The conversations of the user, newest first. */
export function Conversations(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { conversations } = useAssistant();
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
        {conversations.map(known => (
          <Entry key={known.id} {...known} />
        ))}
      </ul>
    </div>
  );
}

function Entry({ id, title, notebook, updated, state }: IConversationSummary): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { conversation } = useAssistant();
  const name = title || trans.__('Untitled');
  const stands =
    state === 'running' ? trans.__('running') : state === 'waiting' && trans.__('waits for you');
  const rename = async (): Promise<void> => {
    const { value } = await InputDialog.getText({ title: trans.__('Rename'), text: name });
    if (value?.trim()) {
      await assistant.renameConversation(id, value.trim());
    }
  };
  const remove = async (): Promise<void> => {
    const { button } = await showDialog({
      title: trans.__('Delete “%1”?', name),
      body: trans.__('What it changed stays in your notebooks, but cannot be undone from here.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })]
    });
    if (button.accept) {
      await assistant.removeConversation(id);
    }
  };
  return (
    <li aria-current={id === conversation.id}>
      <button className="jp-Agent-conversation" onClick={() => assistant.show(id)}>
        <span>{name}</span>
        <span className="jp-Agent-note">
          {[stands, notebook, Time.formatHuman(updated)].filter(Boolean).join(' · ')}
        </span>
      </button>
      <IconButton
        icon={editIcon}
        label={trans.__('Rename “%1”', name)}
        onClick={() => void rename()}
      />
      <IconButton
        icon={closeIcon}
        label={trans.__('Delete “%1”', name)}
        onClick={() => void remove()}
      />
    </li>
  );
}
