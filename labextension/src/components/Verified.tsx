import * as React from 'react';
import { notifyErrors } from '../wording/notifyErrors';
import type { IVerified } from '../api/protocol';
import { useAssistant, useNotebookInFront, useServices, useVerified } from './services';

/** Shows the verification of the notebook in front, until its code changes. */
export function Verified(): React.JSX.Element | null {
  const { trans, verifications } = useServices();
  const { view } = useAssistant();
  const notebook = useNotebookInFront();
  const verified = useVerified()[notebook ?? ''];
  if (view !== 'conversation' || !notebook || !verified?.ok) {
    return null;
  }
  const { at, cells, same, here, outdated, recorded } = verified;
  const time = shortTime(new Date(at));
  const said = here ? trans.__('Verified %1', time) : trans.__('Recorded as verified %1', time);
  const found = outdated
    ? trans.__('the code has changed since')
    : trans._n('%2 of 1 cell, same results', '%2 of %1 cells, same results', cells, same);
  const act = (what: () => Promise<void>) => (): void => void notifyErrors(what, trans);
  return (
    <div
      role="group"
      aria-label={trans.__('Verification')}
      className="jp-Agent-turnLine jp-Agent-verified"
    >
      <span title={madeWith(verified)}>{trans.__('%1: %2', said, found)}</span>
      {here && !recorded && !outdated && (
        <button
          className="jp-Agent-link"
          title={trans.__('Write this into the metadata of the notebook')}
          onClick={act(() => verifications.record(notebook))}
        >
          {trans.__('Record in notebook')}
        </button>
      )}
      <button className="jp-Agent-link" onClick={act(() => verifications.dismiss(notebook))}>
        {recorded ? trans.__('Remove from notebook') : trans.__('Dismiss')}
      </button>
    </div>
  );
}

/** "python3, pandas 2.2.1, code 1a2b3c4d5e6f" */
function madeWith({ hash, kernel, packages }: IVerified): string {
  const versions = Object.entries(packages).map(([name, version]) => `${name} ${version}`);
  return [kernel, ...versions, `code ${hash.slice(0, 12)}`].join(', ');
}

/** The time of day, with the date if it is not today. */
function shortTime(at: Date): string {
  const time = at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  const today = at.toDateString() === new Date().toDateString();
  return today ? time : `${at.toLocaleDateString()} ${time}`;
}
