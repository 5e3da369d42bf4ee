import * as React from 'react';
import { isLive, describeCall, notebookOf } from '../wording/callDescriptions';
import { Answer } from './Answer';
import { Failure } from './Failure';
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
  const { trans } = useServices();
  const { messages, progress, changes } = useConversation();
  const [atEnd, setAtEnd] = React.useState(true);
  const [follower] = React.useState(() => new Follower(setAtEnd));
  const last = messages.at(-1);
  const hidden = useBacklog(messages.length);
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
        <button className="jp-Agent-button jp-Agent-latest" onClick={follower.jump}>
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

/** Keeps the end of the growing messages in view while the reader is there. */
class Follower {
  constructor(private readonly _tell: (atEnd: boolean) => void) {}

  readonly attach = (box: HTMLElement | null): void => {
    this._observer.disconnect();
    this._box = box;
    if (box?.firstElementChild) {
      this._observer.observe(box.firstElementChild);
      this._observer.observe(box);
    }
  };

  readonly look = (): void => {
    const box = this._box!;
    if (this._atEnd && box.scrollTop === this._jumpedTo) {
      return; // not the user: this is the event of our own jump, after which more may have arrived
    }
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    if (atEnd !== this._atEnd) {
      this._atEnd = atEnd;
      this._tell(atEnd);
    }
  };

  readonly jump = (): void => {
    this._box?.scrollTo({ top: this._box.scrollHeight });
    this._jumpedTo = this._box?.scrollTop ?? 0;
  };

  private readonly _observer = new ResizeObserver(() => {
    if (this._atEnd) {
      this.jump();
    } else {
      this.look();
    }
  });
  private _box: HTMLElement | null = null;
  private _atEnd = true;
  /** The scroll position of our last jump to the end. */
  private _jumpedTo = -1;
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
