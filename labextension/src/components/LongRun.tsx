import * as React from 'react';
import { notifyErrors } from '../wording/notifyErrors';
import { useLongRuns, useServices } from './services';

/** A run that outlives its answer, with the choice to be notified of its end. */
export function LongRun({ runId }: { runId: string }): React.JSX.Element | null {
  const { longRuns, trans } = useServices();
  const state = useLongRuns()[runId];
  longRuns.look(runId);
  if (state === undefined || state === 'ended') {
    return null;
  }
  const told = state === 'told';
  return (
    <div className="jp-Agent-longRun">
      {told && (
        <span className="jp-Agent-note">{trans.__('You will be notified when it is done.')}</span>
      )}
      <button
        className="jp-Agent-link"
        onClick={() => void notifyErrors(() => longRuns.tell(runId, !told), trans)}
      >
        {told ? trans.__('Cancel') : trans.__('Tell me when done')}
      </button>
    </div>
  );
}
