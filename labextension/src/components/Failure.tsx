import * as React from 'react';
import type { AgentMessage, INotice } from '../api/protocol';
import { failureWords, refusalWords, splitRequest } from '../wording/failureWords';
import { Continue } from './Continue';
import { Key, ProviderLink } from './Models';
import { useAssistant, useConversation, useServices } from './services';

/** Billing pages of services. */
const BILLING: Readonly<Record<string, string>> = {
  anthropic: 'https://console.anthropic.com/settings/billing',
  openai: 'https://platform.openai.com/settings/organization/billing'
};

/** Why the last turn failed, and the next step. */
export function Failure(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { conversation } = useAssistant();
  const { connected, failure, messages, progress } = useConversation();
  const last = messages.at(-1);
  const again = (): void => void conversation.retry(assistant.choices);
  const told = last && progress !== 'running' ? failedNotice(last) : undefined;
  if (!connected) {
    return (
      <p className="jp-Agent-notice">
        {trans.__('Connection lost. Nothing was lost; reconnecting…')}
      </p>
    );
  }
  if (last && told && (!failure || failure.reason === 'turn')) {
    return <FailedTurn message={last} notice={told} again={again} />;
  }
  if (failure) {
    const [text, request] = splitRequest(refusalWords(failure, trans));
    return (
      <div role="alert" className="jp-Agent-failure">
        <p title={request && trans.__('Request %1', request)}>
          {text || trans.__('The Jupyter server does not answer. Nothing was lost.')}
        </p>
        <div className="jp-Agent-buttons">
          <button className="jp-Agent-button" onClick={again}>
            {trans.__('Try again')}
          </button>
        </div>
      </div>
    );
  }
  if (progress === 'failed' || progress === 'interrupted') {
    return (
      <div className="jp-Agent-failure">
        <p>{trans.__('This answer was not finished.')}</p>
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

interface IFailedTurnProps {
  message: AgentMessage;
  notice: INotice;
  again: () => void;
}

/** Why the last turn failed, with actions that help. */
function FailedTurn({ message, notice, again }: IFailedTurnProps): React.JSX.Element {
  const { assistant, trans } = useServices();
  const [details, setDetails] = React.useState(false);
  const { model } = message.metadata ?? {};
  const provider = model?.split(':', 1)[0] ?? '';
  const words = failureWords(notice, model, trans);
  const [text, request] = splitRequest(notice.error ?? '');
  const said = notice.said ?? (text !== words && text);
  const more = [said, request && trans.__('Request %1', request)];
  const rejected = notice.reason === 'authentication';
  return (
    <div role="alert" className="jp-Agent-failure">
      <p>{words}</p>
      {rejected && <Key provider={provider} known onSaved={again} />}
      <div className="jp-Agent-buttons">
        <button className="jp-Agent-button" onClick={again}>
          {trans.__('Try again')}
        </button>
        {notice.reason === 'billing' && (
          <ProviderLink page={BILLING[provider]}>{trans.__('Open billing')}</ProviderLink>
        )}
        <button className="jp-Agent-button" onClick={() => assistant.setView('models')}>
          {trans.__('Settings')}
        </button>
        {more.some(Boolean) && (
          <button
            className="jp-Agent-link"
            aria-expanded={details}
            onClick={() => setDetails(!details)}
          >
            {trans.__('Details')}
          </button>
        )}
      </div>
      {details && <p className="jp-Agent-note">{more.filter(Boolean).join(' ')}</p>}
    </div>
  );
}

function failedNotice({ parts }: AgentMessage): INotice | undefined {
  const part = parts.at(-1);
  return part?.type === 'data-notice' && part.data.kind === 'failed' ? part.data : undefined;
}
