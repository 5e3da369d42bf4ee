import * as React from 'react';
import type { AgentMessage } from '../api/protocol';
import { retryOf } from '../chat/message';
import type { IActivity } from '../wording/activity';
import { activityOf } from '../wording/activity';
import { withSeconds } from '../wording/callDescriptions';
import { Retrying } from './Retrying';
import { useAssistant, useConversation, useSeconds, useServices, useTools } from './services';

/** What a running turn is doing or waiting for, and for how long. */
export function Life(): React.JSX.Element | null {
  const { messages, progress, connected } = useConversation();
  const activity = useActivity(messages.at(-1));
  const last = messages.at(-1);
  if (progress !== 'running' || !connected) {
    return null;
  }
  const retry = last ? retryOf(last) : null;
  return (
    <div className="jp-Agent-life">
      <span className="jp-Agent-dot" aria-hidden="true" />
      {retry ? <Retrying notice={retry} /> : <Clock key={activity.key} text={activity.text} />}
    </div>
  );
}

/** "Running cell 5, 12 s" */
function Clock({ text }: { text: string }): React.JSX.Element {
  const { trans } = useServices();
  return <span role="timer">{withSeconds(text, useSeconds(true), trans)}</span>;
}

function useActivity(last: AgentMessage | undefined): IActivity {
  const { assistant, notebooks, trans } = useServices();
  const tools = useTools();
  const { conversation } = useAssistant();
  const isHeld = conversation.approvals.length > 0;
  return activityOf(last, { isHeld, model: assistant.models.answering, notebooks, tools }, trans);
}
