import * as React from 'react';
import { useAssistant, useConversation, useServices } from './services';

/** What went wrong with the last turn, what is safe, and the next step. */
export function Failure(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { conversation, models } = useAssistant();
  const { connected, failure, messages, progress } = useConversation();
  const metadata = messages.at(-1)?.metadata;
  const again = (): void => void conversation.retry(assistant.choices);
  if (!connected) {
    return (
      <p className="jp-Agent-notice">
        {trans.__('The server does not answer. Nothing is lost; trying again…')}
      </p>
    );
  }
  if (failure) {
    const provider = models?.providers.find(({ name }) =>
      assistant.answering.startsWith(`${name}:`)
    );
    return (
      <div role="alert" className="jp-Agent-failure">
        <p>
          {failure.message || trans.__('The Jupyter server does not answer. Nothing was lost.')}
        </p>
        <div className="jp-Agent-buttons">
          <button className="jp-Agent-button" onClick={again}>
            {trans.__('Try again')}
          </button>
          {provider && !provider.credentials && (
            <button className="jp-Agent-button" onClick={() => assistant.setView('models')}>
              {trans.__('Add a key')}
            </button>
          )}
        </div>
      </div>
    );
  }
  if (progress === 'failed' || progress === 'interrupted') {
    return (
      <div className="jp-Agent-failure">
        <p>{trans.__('This answer was not finished. What was done so far is kept.')}</p>
        <button className="jp-Agent-button" onClick={again}>
          {trans.__('Try again')}
        </button>
      </div>
    );
  }
  if (progress === 'stopped') {
    return <p className="jp-Agent-notice">{trans.__('Stopped.')}</p>;
  }
  if (progress === 'done' && (metadata?.stepLimitReached || metadata?.budgetReached)) {
    return (
      <div className="jp-Agent-failure">
        <p>
          {metadata.stepLimitReached
            ? trans.__('Stopped after %1 steps, with an answer from what it had.', metadata.steps)
            : trans.__('The token budget of this turn is used up.')}
        </p>
        <button
          className="jp-Agent-button"
          onClick={() => void assistant.ask(trans.__('Continue.'))}
        >
          {trans.__('Continue')}
        </button>
      </div>
    );
  }
  return null;
}
