import * as React from 'react';
import { isMac } from './ReadFirst';
import { useServices } from './services';

/** Help on the message field and the keys. */
export function Help(): React.JSX.Element {
  const { assistant, keysOf, openSettings, slash, trans } = useServices();
  const keys: [string, string][] = [
    ['Enter', trans.__('Send, or queue while it works')],
    [isMac() ? '⇧ Enter' : 'Shift+Enter', trans.__('New line')],
    ['↑  ↓', trans.__('Previous messages')],
    [isMac() ? '⌘ Enter' : 'Ctrl+Enter', trans.__('Allow what it asks for')],
    [keysOf('next-change'), trans.__('Next change')],
    [keysOf('previous-change'), trans.__('Previous change')],
    [keysOf('keep-change'), trans.__('Keep the change, show the next one')],
    [keysOf('undo-change'), trans.__('Undo the change, show the next one')],
    ['Esc', trans.__('Stop the answer, or return to the notebook')],
    ['@', trans.__('Add cells, the selection, variables, files or notebooks')],
    ['/', trans.__('List commands')]
  ];
  return (
    <div
      className="jp-Agent-page jp-Agent-help"
      tabIndex={0}
      aria-label={trans.__('Help')}
      role="region"
    >
      <h3>{trans.__('Keys')}</h3>
      <Terms
        terms={keys
          .filter(([key]) => key)
          .map(([key, about]) => [<kbd key={key}>{key}</kbd>, about])}
      />
      <h3>{trans.__('Commands')}</h3>
      <Terms
        terms={slash.commands.map(({ name, description }) => [
          <code key={name}>/{name}</code>,
          description
        ])}
      />
      <p className="jp-Agent-notice">
        {trans.__('You can paste or drop images, cells and files.')}
      </p>
      <div className="jp-Agent-buttons">
        <button className="jp-Agent-button" onClick={() => assistant.setView('conversation')}>
          {trans.__('Back')}
        </button>
        <button className="jp-Agent-link" onClick={openSettings}>
          {trans.__('Add your own commands')}
        </button>
      </div>
    </div>
  );
}

function Terms({ terms }: { terms: [React.ReactNode, string][] }): React.JSX.Element {
  return (
    <dl>
      {terms.map(([term, about], index) => (
        <div key={index}>
          <dt>{term}</dt>
          <dd>{about}</dd>
        </div>
      ))}
    </dl>
  );
}
