import { Clipboard } from '@jupyterlab/apputils';
import { checkIcon, copyIcon, ellipsesIcon, refreshIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { AgentMessage, IMessageMetadata } from '../api/protocol';
import { questionBefore } from '../api/request';
import { usageWords } from '../wording/tokenCount';
import { MenuButton } from './Menu';
import { SentRequests, useSentRequests } from './SentRequests';
import { useAssistant, useServices } from './services';

interface IAnswerFooterProps {
  message: AgentMessage;
  turnId: string;
  /** Whether it is the last answer: a new answer to an earlier one would replace everything after it. */
  recent: boolean;
  /** The undo button. */
  children: React.ReactNode;
}

/** The actions for a finished answer, and its usage. */
export function AnswerFooter(props: IAnswerFooterProps): React.JSX.Element {
  const { message, turnId, recent, children } = props;
  const { assistant, trans, usage } = useServices();
  const { conversation } = useAssistant();
  const sent = useSentRequests(turnId);
  const [copied, setCopied] = React.useState(false);
  const text = message.parts
    .flatMap(part => (part.type === 'text' && part.text.trim() ? [part.text] : []))
    .join('\n\n');
  const copy = (): void => {
    Clipboard.copyToSystem(text);
    setCopied(true);
  };
  const Copy = copied ? checkIcon : copyIcon;
  const items = [
    {
      label: sent.found ? trans.__('Hide requests') : trans.__('View requests'),
      run: sent.toggle
    },
    { label: trans.__('Usage details'), run: () => usage.show() }
  ];
  return (
    <>
      <div className="jp-Agent-footer">
        {text && (
          <button className="jp-Agent-footerButton" onClick={copy} onBlur={() => setCopied(false)}>
            <Copy.react tag="span" />
            {copied ? trans.__('Copied') : trans.__('Copy')}
          </button>
        )}
        {recent && (
          <button
            className="jp-Agent-footerButton"
            onClick={() => {
              if (!conversation.busy) {
                void conversation.retry(
                  assistant.choices,
                  questionBefore(conversation.state.messages, message.id)
                );
              }
            }}
          >
            <refreshIcon.react tag="span" />
            {trans.__('Retry')}
          </button>
        )}
        {children}
        <MenuButton
          label={trans.__('More')}
          className="jp-Agent-footerButton"
          side="start"
          items={items}
        >
          <ellipsesIcon.react tag="span" />
        </MenuButton>
        <Facts metadata={message.metadata} />
      </div>
      {sent.found && <SentRequests found={sent.found} />}
    </>
  );
}

/** "4 requests, 19.2k tokens, cost 0.04" */
function Facts({ metadata }: { metadata: IMessageMetadata | undefined }): React.JSX.Element {
  const { trans } = useServices();
  return <span className="jp-Agent-took">{metadata ? usageWords(metadata, trans) : ''}</span>;
}
