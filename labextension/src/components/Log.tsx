import * as React from 'react';
import type { Assistant } from '../chat/assistant';
import type { ConversationEvent } from '../chat/conversationEvents';
import { isLive, describeCall, notebookOf } from '../wording/callDescriptions';
import { Answer } from './Answer';
import { Failure } from './Failure';
import { Follower } from './follower';
import { Life } from './Life';
import { OutOfDate } from './OutOfDate';
import { Question } from './Question';
import {
  useAssistant,
  useConversation,
  useNotebookInFront,
  useServices,
  useTools
} from './services';
import { Welcome } from './Welcome';

/** The messages of the conversation in front. */
export function Log(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { messages, progress, changes } = useConversation();
  const [atEnd, setAtEnd] = React.useState(true);
  const [follower] = React.useState(() => new Follower(setAtEnd));
  const last = messages.at(-1);
  const hidden = useBacklog(messages.length);
  React.useEffect(() => {
    const look = (_: Assistant, event: ConversationEvent): void => {
      if (event === 'opened' || event === 'sent') {
        follower.follow();
      }
    };
    assistant.happened.connect(look);
    return () => void assistant.happened.disconnect(look);
  }, [assistant, follower]);
  return (
    <div className="jp-Agent-scroller">
      <div
        role="log"
        aria-label={trans.__('Conversation')}
        aria-live="off"
        tabIndex={0}
        className="jp-Agent-log"
        ref={follower.attach}
        onScroll={follower.look}
      >
        <div className="jp-Agent-messages">
          {!messages.length && <Welcome />}
          {messages
            .slice(hidden)
            .map(message =>
              message.role === 'user' ? (
                <Question key={message.id} message={message} />
              ) : (
                <Answer
                  key={message.id}
                  message={message}
                  recent={message === last}
                  running={message === last && progress === 'running'}
                  changes={changes[message.metadata?.turnId ?? '']}
                />
              )
            )}
          <Life />
          <Failure />
          <OutOfDate />
        </div>
      </div>
      {!atEnd && (
        <button className="jp-Agent-button jp-Agent-latest" onClick={follower.follow}>
          {trans.__('Jump to latest')}
        </button>
      )}
      <Announcement />
    </div>
  );
}

/** Number of messages rendered at once when a conversation is opened, and then whenever the page is idle. */
const AT_ONCE = 12;

/** How many of the first messages are not rendered yet: a long conversation opens at its end. */
function useBacklog(count: number): number {
  const { conversation } = useAssistant();
  const [backlog, setBacklog] = React.useState({ of: '', hidden: 0 });
  if (count && backlog.of !== conversation.id) {
    setBacklog({ of: conversation.id, hidden: Math.max(0, count - AT_ONCE) });
  }
  const { hidden } = backlog;
  React.useEffect(() => {
    if (!hidden) {
      return;
    }
    const more = { of: conversation.id, hidden: Math.max(0, hidden - AT_ONCE) };
    const idle = requestIdleCallback(() => setBacklog(more), { timeout: 1000 });
    return () => cancelIdleCallback(idle);
  }, [conversation, hidden]);
  return Math.min(hidden, count);
}

/** Announces progress to screen readers: actions, not each word. */
function Announcement(): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const tools = useTools();
  const { messages, progress } = useConversation();
  const last = messages.at(-1);
  const front = useNotebookInFront();
  const calls = last?.parts.filter(part => part.type === 'dynamic-tool') ?? [];
  const call = calls.findLast(part => !isLive(part));
  const notebook = call ? notebookOf(call, [], last?.metadata?.notebook ?? null) : null;
  const locate = (cell_id: string): number | null =>
    notebook ? notebooks.position({ notebook, cell_id }) : null;
  const named = { notebook: notebook === front ? null : notebook };
  const did = call && describeCall(call, [], locate, tools, trans, named);
  const text =
    progress === 'running' ? [did?.text, did?.fault, did?.note].filter(Boolean).join(', ') : '';
  return (
    <div role="status" className="jp-Agent-hidden">
      {text || (progress === 'done' ? trans.__('The assistant has answered') : '')}
    </div>
  );
}
