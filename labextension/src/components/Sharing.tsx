import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { Share } from '../api/protocol';
import { SHARES } from '../chat/sharing';
import { useAssistant, useServices, useSharing } from './services';

/** Choice of how much models may see, with the restrictions by notebook and administrator. */
export function SharingChoice(): React.JSX.Element {
  const { sharing, trans } = useServices();
  const { own, notebook, ceiling, hidden } = useSharing();
  return (
    <section aria-label={trans.__('Data sharing')}>
      <h3>{trans.__('Data sharing')}</h3>
      <p>
        {trans.__('The stricter setting applies, from your next message.')}{' '}
        {ceiling !== 'all' &&
          trans.__('Your administrator allows at most: %1.', shareName(ceiling, trans))}
      </p>
      <Choice
        label={trans.__('All your notebooks')}
        value={own}
        onChange={share => void sharing.chooseOwn(share)}
      />
      {notebook && (
        <Choice
          label={trans.__('This notebook')}
          value={notebook}
          onChange={share => sharing.chooseForNotebook(share)}
        />
      )}
      <p className="jp-Agent-notice">
        {trans.__('Cells tagged agent-hidden are never sent.')}{' '}
        {hidden > 0 && trans._n('1 cell here is hidden.', '%1 cells here are hidden.', hidden)}
      </p>
    </section>
  );
}

/** Says that something is withheld; nothing if everything is shared. */
export function WithheldNotice(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { view } = useAssistant();
  const { effective, hidden } = useSharing();
  if (view !== 'conversation' || (effective === 'all' && !hidden)) {
    return null;
  }
  return (
    <p role="note" className="jp-Agent-keptBack">
      {effective !== 'all' && trans.__('Data sharing: %1.', shareName(effective, trans))}{' '}
      {hidden > 0 && trans._n('1 cell is hidden.', '%1 cells are hidden.', hidden)}{' '}
      <button className="jp-Agent-link" onClick={() => assistant.setView('models')}>
        {trans.__('Change')}
      </button>
    </p>
  );
}

interface IShareChoiceProps {
  label: string;
  value: Share;
  onChange: (share: Share) => void;
}

function Choice({ label, value, onChange }: IShareChoiceProps): React.JSX.Element {
  const { trans } = useServices();
  return (
    <label className="jp-Agent-sharing">
      <span>{label}</span>
      <select value={value} onChange={event => onChange(event.target.value as Share)}>
        {SHARES.map(share => (
          <option key={share} value={share}>
            {shareName(share, trans)}
          </option>
        ))}
      </select>
    </label>
  );
}

function shareName(share: Share, trans: TranslationBundle): string {
  switch (share) {
    case 'all':
      return trans.__('Everything');
    case 'no-outputs':
      return trans.__('No outputs or variables');
    case 'code-only':
      return trans.__('Code only');
  }
}
