import * as React from 'react';
import type { AgentMessage } from '../api/protocol';
import { limitOf } from '../chat/message';
import { useServices } from './services';

/** Says which limit ended an answer, and continues it. */
export function Continue({ message }: { message: AgentMessage }): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const ended = limitOf(message);
  if (!ended) {
    return null;
  }
  const { turnId, limit } = ended;
  const notebook = message.metadata?.notebook ?? undefined; // the same as in that turn, also after a rename
  const steps = message.metadata?.steps ?? 0;
  const { mode } = assistant.choices;
  const continued = { continues: turnId, notebook, context: undefined, mode };
  return (
    <div className="jp-Agent-limit">
      <p>
        {limit === 'month'
          ? trans.__('Your budget for this month is used up.')
          : limit === 'steps'
            ? trans._n(
                'Stopped after 1 step, with an answer from the results so far.',
                'Stopped after %1 steps, with an answer from the results so far.',
                steps
              )
            : trans.__('The budget for this answer is used up.')}
      </p>
      {limit !== 'month' && (
        <button
          className="jp-Agent-button"
          onClick={() => void assistant.ask(trans.__('Continue.'), continued)}
        >
          {trans.__('Continue')}
        </button>
      )}
    </div>
  );
}
