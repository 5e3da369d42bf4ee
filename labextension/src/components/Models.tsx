import * as React from 'react';
import { RequestError } from '../api/client';
import { titleCase } from '../wording/callDescriptions';
import { useModels, useServices } from './services';
import { SharingChoice } from './Sharing';

/** The known providers that want no key. */
const KEYLESS = new Set(['demo', 'ollama']);

/** Who can answer, and a field for the key of each provider that wants one. */
export function Models(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { models } = useModels();
  return (
    <div className="jp-Agent-page">
      <h3>{trans.__('Models and keys')}</h3>
      <p>
        {trans.__(
          'A key is kept on the Jupyter server, in a file that only you can read. It is used at once, and never shown again.'
        )}
      </p>
      {models?.providers
        .filter(({ name }) => !KEYLESS.has(name))
        .map(({ name, credentials }) => (
          <Key key={name} provider={name} known={credentials} />
        ))}
      <SharingChoice />
      <button className="jp-Agent-button" onClick={() => assistant.setView('conversation')}>
        {trans.__('Back')}
      </button>
    </div>
  );
}

/** That the key which was just stored works. */
export function AcceptedKey(): React.JSX.Element | null {
  const { trans } = useServices();
  const { accepted } = useModels();
  if (!accepted) {
    return null;
  }
  const name = titleCase(accepted.provider);
  return (
    <p role="status" className="jp-Agent-notice">
      {accepted.models === null
        ? trans.__('Key for %1 saved; it was not checked.', name)
        : trans._n('Key works, 1 model', 'Key works, %1 models', accepted.models)}
    </p>
  );
}

/** A field for the key of a provider, which is used from the moment it is saved. */
export function Key({ provider, known }: { provider: string; known: boolean }): React.JSX.Element {
  const { assistant, trans } = useServices();
  const [key, setKey] = React.useState('');
  const [problem, setProblem] = React.useState('');
  const [checking, setChecking] = React.useState(false);
  const save = async (): Promise<void> => {
    setChecking(true);
    try {
      await assistant.setKey(provider, key.trim());
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      const rejected = trans.__('%1 rejected this key.', titleCase(provider));
      setProblem(error.reason === 'key_rejected' ? rejected : error.message);
    } finally {
      setChecking(false);
    }
  };
  return (
    <form
      className="jp-Agent-key"
      onSubmit={event => {
        event.preventDefault();
        void save();
      }}
    >
      <label>
        <span>{trans.__('Key for %1', titleCase(provider))}</span>
        <input
          className="jp-mod-styled"
          type="password"
          autoComplete="off"
          value={key}
          placeholder={known ? trans.__('There is one; paste another to replace it') : ''}
          onChange={event => setKey(event.target.value)}
        />
      </label>
      <button
        type="submit"
        className="jp-Agent-button jp-mod-primary"
        disabled={!key.trim() || checking}
      >
        {checking ? trans.__('Checking…') : trans.__('Save')}
      </button>
      {problem && (
        <p role="alert" className="jp-Agent-fault">
          {problem}
        </p>
      )}
    </form>
  );
}
