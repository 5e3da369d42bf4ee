import * as React from 'react';
import { useServices } from './services';

/** What can be written in the message field, and which keys there are. */
export function Help(): React.JSX.Element {
  const { assistant, openSettings, slash, trans } = useServices();
  const keys: [string, string][] = [
    ['Enter', trans.__('asks; while an answer is being written, asks afterwards')],
    ['Shift Enter', trans.__('begins a new line')],
    ['↑  ↓', trans.__('go through what you asked before')],
    ['Esc', trans.__('stops the answer; else goes back to the notebook')],
    ['@', trans.__('attaches cells, the selection, variables, files and other notebooks')],
    ['/', trans.__('lists the commands')]
  ];
  return (
    <div
      className="jp-Agent-page jp-Agent-help"
      tabIndex={0}
      aria-label={trans.__('Help')}
      role="region"
    >
      <h3>{trans.__('Keys')}</h3>
      <Terms terms={keys.map(([key, about]) => [<kbd key={key}>{key}</kbd>, about])} />
      <h3>{trans.__('Commands')}</h3>
      <Terms
        terms={slash.commands.map(({ name, description }) => [
          <code key={name}>/{name}</code>,
          description
        ])}
      />
      <p className="jp-Agent-notice">
        {trans.__('Pictures can be pasted, or dropped here; so can cells and files.')}
      </p>
      <div className="jp-Agent-buttons">
        <button className="jp-Agent-button" onClick={() => assistant.setView('conversation')}>
          {trans.__('Back')}
        </button>
        <button className="jp-Agent-link" onClick={openSettings}>
          {trans.__('Add commands of your own')}
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
