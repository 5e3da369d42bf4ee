import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Time } from '@jupyterlab/coreutils';
import { closeIcon, downloadIcon, editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import { notifyErrors } from '../wording/notifyErrors';
import type { IConversationSummary } from '../api/protocol';
import { IconButton } from './Header';
import { useAssistant, useDraft, useListing, useServices } from './services';

/** The conversations of the user, newest first. */
export function Conversations(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { listing } = assistant;
  const { conversations, nextPage } = useListing();
  const { place } = useDraft();
  const [query, setQuery] = React.useState('');
  const [here, setHere] = React.useState(false);
  const notebook = place?.notebook;
  const read = (search: string, only: boolean): void => {
    const listed = { query: search, notebook: only ? notebook : undefined };
    void notifyErrors(() => listing.read(listed), trans);
  };
  return (
    <div className="jp-Agent-page">
      <input
        className="jp-mod-styled"
        type="search"
        aria-label={trans.__('Search conversations')}
        placeholder={trans.__('Search')}
        autoFocus
        onChange={event => {
          setQuery(event.target.value);
          read(event.target.value, here);
        }}
      />
      {notebook && (
        <label className="jp-Agent-notice" title={notebook}>
          <input
            type="checkbox"
            checked={here}
            onChange={() => {
              setHere(!here);
              read(query, !here);
            }}
          />
          {trans.__('This notebook only')}
        </label>
      )}
      {!conversations.length && (
        <p className="jp-Agent-notice">
          {query || here ? trans.__('No results') : trans.__('No conversations yet')}
        </p>
      )}
      <ul className="jp-Agent-conversations" aria-label={trans.__('Conversations')}>
        {conversations.map(known => (
          <Entry key={known.id} {...known} />
        ))}
      </ul>
      {nextPage !== null && (
        <button
          className="jp-Agent-button"
          onClick={() => void notifyErrors(() => listing.more(), trans)}
        >
          {trans.__('Show older')}
        </button>
      )}
    </div>
  );
}

function Entry(known: IConversationSummary): React.JSX.Element {
  const { id, title, notebook, updated, state, match } = known;
  const { assistant, trans } = useServices();
  const { conversation } = useAssistant();
  const name = title || trans.__('Untitled');
  const stands =
    state === 'running' ? trans.__('working') : state === 'waiting' && trans.__('needs approval');
  const rename = async (): Promise<void> => {
    const { value } = await InputDialog.getText({ title: trans.__('Rename'), text: name });
    if (value?.trim()) {
      await notifyErrors(() => assistant.renameConversation(id, value.trim()), trans);
    }
  };
  const remove = async (): Promise<void> => {
    const { button } = await showDialog({
      title: trans.__('Delete “%1”?', name),
      body: trans.__('Its changes stay in your notebooks but can no longer be undone from here.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })]
    });
    if (button.accept) {
      await notifyErrors(() => assistant.removeConversation(id), trans);
    }
  };
  return (
    <li aria-current={id === conversation.id}>
      <button className="jp-Agent-conversation" onClick={() => assistant.show(id)}>
        <span>{name}</span>
        {match && (
          <q className="jp-Agent-match" title={match}>
            {match}
          </q>
        )}
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
        icon={downloadIcon}
        label={trans.__('Export “%1”', name)}
        onClick={() => void notifyErrors(() => assistant.listing.export(id, name), trans)}
      />
      <IconButton
        icon={closeIcon}
        label={trans.__('Delete “%1”', name)}
        onClick={() => void remove()}
      />
    </li>
  );
}
