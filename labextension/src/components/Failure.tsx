import * as React from 'react';
import { Continue } from './Continue';
import { useAssistant, useConversation, useServices } from './services';

/** What went wrong with the last turn, what is safe, and the next step. */
export function Failure(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { conversation } = useAssistant();
  const { connected, failure, messages, progress } = useConversation();
  const last = messages.at(-1);
  const again = (): void => void conversation.retry(assistant.choices);
  if (!connected) {
    return (
      <p className="jp-Agent-notice">
        {trans.__('The server does not answer. Nothing is lost; trying again…')}
      </p>
    );
  }
  if (failure) {
    const [text, request] = splitRequest(failure.message);
    return (
      <div role="alert" className="jp-Agent-failure">
        <p title={request && trans.__('Request %1', request)}>
          {text || trans.__('The Jupyter server does not answer.')} {trans.__('Nothing was lost.')}
        </p>
        <div className="jp-Agent-buttons">
          <button className="jp-Agent-button" onClick={again}>
            {trans.__('Try again')}
          </button>
          {failure.reason === 'turn' && (
            <button className="jp-Agent-button" onClick={() => assistant.setView('models')}>
              {trans.__('Models and keys')}
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
  return progress === 'done' && last ? <Continue message={last} /> : null;
}

/** The message of a model service, and the id of the request, which only its support needs. */
function splitRequest(message: string): [text: string, request: string | undefined] {
  const [, text, request] = /^(.*?)\s*\(request ([\w-]+)\)$/s.exec(message) ?? [];
  return request ? [text, request] : [message, undefined];
}
