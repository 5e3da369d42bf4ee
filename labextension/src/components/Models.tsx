import * as React from 'react';
import { RequestError } from '../api/failure';
import { titleCase } from '../wording/callDescriptions';
import { refusalWords } from '../wording/failureWords';
import { FallbackChoice } from './FallbackChoice';
import { useModels, useServices } from './services';
import { SharingChoice } from './Sharing';

/** The known providers that need no key. */
const KEYLESS = new Set(['demo', 'ollama']);

/** The pages that issue keys. */
const CONSOLES: Readonly<Record<string, string>> = {
  anthropic: 'https://console.anthropic.com/settings/keys',
  openai: 'https://platform.openai.com/api-keys'
};

interface IProviderLinkProps {
  page: string | undefined;
  children: string;
}

/** A link to a page of a provider, in a new tab; nothing if the page is not known. */
export function ProviderLink({ page, children }: IProviderLinkProps): React.JSX.Element | null {
  return page ? (
    <a className="jp-Agent-link" href={page} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : null;
}

/** The providers, with a key field for each that needs one. */
export function Models(): React.JSX.Element {
  const { assistant, openSettings, trans } = useServices();
  const { models } = useModels();
  return (
    <div className="jp-Agent-page">
      <h3>{trans.__('Settings')}</h3>
      <p>{trans.__('Keys are stored on the Jupyter server in a file only you can read.')}</p>
      {models?.providers
        .filter(({ name }) => !KEYLESS.has(name))
        .map(({ name, credentials }) => (
          <Key key={name} provider={name} known={credentials} />
        ))}
      <FallbackChoice />
      <SharingChoice />
      <button className="jp-Agent-button" onClick={() => assistant.setView('conversation')}>
        {trans.__('Back')}
      </button>{' '}
      <button className="jp-Agent-link" onClick={openSettings}>
        {trans.__('More settings')}
      </button>
    </div>
  );
}

/** Confirms that the key just stored works. */
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
        ? trans.__('%1 API key saved. It could not be checked.', name)
        : trans._n('Key works, 1 model', 'Key works, %1 models', accepted.models)}
    </p>
  );
}

interface IKeyProps {
  provider: string;
  known: boolean;
  /** Called once the key is saved, to continue the action that needs it. */
  onSaved?: () => void;
}

/** A field for the key of a provider, which takes effect when it is saved. */
export function Key({ provider, known, onSaved }: IKeyProps): React.JSX.Element {
  const { assistant, trans } = useServices();
  const [key, setKey] = React.useState('');
  const [problem, setProblem] = React.useState('');
  const [checking, setChecking] = React.useState(false);
  const save = async (): Promise<void> => {
    setChecking(true);
    try {
      await assistant.setKey(provider, key.trim());
      onSaved?.();
    } catch (error) {
      if (!(error instanceof RequestError)) {
        throw error;
      }
      const rejected = trans.__('%1 rejected this key.', titleCase(provider));
      setProblem(error.reason === 'key_rejected' ? rejected : refusalWords(error, trans));
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
        <span>{trans.__('%1 API key', titleCase(provider))}</span>
        <input
          className="jp-mod-styled"
          type="password"
          autoComplete="off"
          value={key}
          placeholder={known ? trans.__('Saved. Paste a new key to replace it.') : ''}
          onChange={event => setKey(event.target.value)}
        />
      </label>
      <button
        type="submit"
        className="jp-Agent-button jp-mod-primary"
        disabled={!key.trim() || checking}
      >
        {checking ? trans.__('Checking…') : onSaved ? trans.__('Save and retry') : trans.__('Save')}
      </button>
      <ProviderLink page={CONSOLES[provider]}>{trans.__('Get a key')}</ProviderLink>
      {problem && (
        <p role="alert" className="jp-Agent-fault">
          {problem}
        </p>
      )}
    </form>
  );
}
