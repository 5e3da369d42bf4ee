import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { AgentMessage, AgentPart, IChange, INotice } from '../api/protocol';
import { retryOf } from '../chat/message';
import { currentCall, isLive } from '../wording/callDescriptions';
import { fallbackNotice } from '../wording/fallback';
import { Boundary } from './Boundary';
import { Call, notebookOf } from './Call';
import { Markdown } from './Markdown';
import { Retrying } from './Retrying';
import { TurnEnd } from './Review';
import { SentRequests } from './SentRequests';
import { useSeconds, useServices } from './services';

const NONE: readonly IChange[] = [];

interface IAnswerProps {
  message: AgentMessage;
  /** Whether it is the last message. */
  recent: boolean;
  /** Whether it still grows. */
  running: boolean;
  /** The current state of its changes, once they were read. */
  changes: readonly IChange[] | undefined;
}

/** The text and calls of an answer, in order. */
export const Answer = React.memo(function Answer(props: IAnswerProps) {
  const { message, recent, running, changes } = props;
  const { trans } = useServices();
  const { parts, metadata } = message;
  const turnId = metadata?.turnId ?? '';
  const byCall = React.useMemo(
    () => (changes ? Map.groupBy(changes, ({ call_id }) => call_id) : null),
    [changes]
  );
  const own = byCall ?? changesByCall(parts);
  const abandoned = abandonedParts(parts, running);
  const asking = parts.some(isAsking);
  const current = currentCall(parts);
  const retry = running ? retryOf(message) : null;
  const home = metadata?.notebook ?? null;
  const several = new Set(notebooksOf(parts, own, home)).size > 1;
  return (
    <article className="jp-Agent-answer" data-turn={turnId}>
      {parts.map((part, index) => (
        <div key={index} className={abandoned.has(part) ? 'jp-Agent-abandoned' : undefined}>
          <Boundary trans={trans} of={part}>
            <Part
              part={part}
              changes={own}
              notebook={home}
              several={several}
              turnId={turnId}
              recent={recent}
              running={running}
              retry={retry}
              held={asking || part !== current}
            />
          </Boundary>
        </div>
      ))}
      {running && <Caret parts={parts} />}
      {!running && (
        <>
          <TurnEnd turnId={turnId} changes={changes ?? [...own.values()].flat()} />
          {turnId && <SentRequests turnId={turnId} />}
        </>
      )}
    </article>
  );
});

interface IPartProps {
  part: AgentPart;
  /** By the call that made them. */
  changes: ReadonlyMap<string | null, readonly IChange[]>;
  notebook: string | null;
  /** Whether it is about more notebooks than one. */
  several: boolean;
  turnId: string;
  recent: boolean;
  running: boolean;
  /** The failed request that the turn waits to repeat. */
  retry: INotice | null;
  /** Whether something else comes before it: a question that waits for the user, or another call. */
  held: boolean;
}

function Part({ part, changes, retry, ...rest }: IPartProps): React.JSX.Element | null {
  switch (part.type) {
    case 'text':
      return <Markdown text={part.text} />;
    case 'reasoning':
      return part.text ? <Thinking text={part.text} live={part.state === 'streaming'} /> : null;
    case 'dynamic-tool': {
      return <Call call={part} changes={changes.get(part.toolCallId) ?? NONE} {...rest} />;
    }
    case 'data-notice':
      return part.data === retry ? <Retrying notice={retry} /> : <Notice notice={part.data} />;
    default:
      return null;
  }
}

function Thinking({ text, live }: { text: string; live: boolean }): React.JSX.Element {
  const { trans } = useServices();
  const [open, setOpen] = React.useState(false);
  const seconds = useSeconds(live);
  const Icon = open ? caretDownIcon : caretRightIcon;
  const thought = seconds > 0 ? trans.__('Thought for %1 s', seconds) : trans.__('Thought');
  return (
    <div className="jp-Agent-thinking">
      <button className="jp-Agent-callWords" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon.react tag="span" className="jp-Agent-caret" />
        <span>{live ? trans.__('Thinking…') : thought}</span>
      </button>
      {open && <Markdown text={text} />}
    </div>
  );
}

function Notice({ notice }: { notice: INotice }): React.JSX.Element | null {
  const { trans } = useServices();
  const { kind, text, approvals = [] } = notice;
  if (kind === 'answered') {
    const reasons = new Set(approvals.flatMap(({ reason }) => reason ?? []));
    return reasons.size ? <Reply text={[...reasons].join('\n\n')} /> : null;
  }
  if (kind === 'fallback') {
    return <p className="jp-Agent-notice">{fallbackNotice(notice, trans)}</p>;
  }
  const passed = kind === 'retrying' && notice.until; // a time that is over tells nobody anything
  return kind === 'approval' || passed || !text ? null : <p className="jp-Agent-notice">{text}</p>;
}

/** The user's answer to a question of the assistant. */
function Reply({ text }: { text: string }): React.JSX.Element {
  const { trans } = useServices();
  return (
    <article className="jp-Agent-question" aria-label={trans.__('Your answer')}>
      <p>{text}</p>
    </article>
  );
}

/** Where the next words will appear, while nothing else shows that the assistant is at work. */
function Caret({ parts }: { parts: readonly AgentPart[] }): React.JSX.Element | null {
  const busy = parts.some(
    part =>
      isAsking(part) ||
      (part.type === 'dynamic-tool' && isLive(part)) ||
      ('state' in part && part.state === 'streaming')
  );
  return !busy ? <span className="jp-Agent-cursor" /> : null;
}

function isAsking(part: AgentPart): boolean {
  return part.type === 'dynamic-tool' && part.state === 'approval-requested';
}

/** The notebooks that the calls of an answer are about. */
function notebooksOf(
  parts: readonly AgentPart[],
  changes: ReadonlyMap<string | null, readonly IChange[]>,
  home: string | null
): (string | null)[] {
  return parts.flatMap(part =>
    part.type === 'dynamic-tool' ? notebookOf(part, changes.get(part.toolCallId) ?? NONE, home) : []
  );
}

/**
 * The changes that an answer reports, by call. The arrays are reused, so that an unchanged call is not rendered
 * again.
 */
function changesByCall(
  parts: readonly AgentPart[]
): ReadonlyMap<string | null, readonly IChange[]> {
  const changesOf = new Map<string | null, readonly IChange[]>();
  for (const part of parts) {
    if (part.type === 'data-changes') {
      const { toolCallId, changes } = part.data;
      const before = changesOf.get(toolCallId);
      changesOf.set(toolCallId, before ? [...before, ...changes] : changes);
    }
  }
  return changesOf;
}

/** The parts of attempts that were abandoned and retried. */
function abandonedParts(parts: readonly AgentPart[], running: boolean): ReadonlySet<AgentPart> {
  const abandoned: AgentPart[] = [];
  let step: AgentPart[] = [];
  for (const part of parts) {
    if (part.type === 'step-start') {
      step = [];
    } else if (isNotice(part, 'fallback')) {
      abandoned.push(...step.splice(0)); // and the notice stays: it says who answers
    } else if (isNotice(part, 'provider')) {
      continue;
    } else if (isRetry(part)) {
      abandoned.push(...step.splice(0));
      step.push(part); // of the next attempt: if that fails too, it has a notice of its own
    } else {
      step.push(part);
    }
  }
  if (!running && step.every(isRetry)) {
    abandoned.push(...step); // the last attempt, which produced nothing
  }
  return new Set(abandoned);
}

function isRetry(part: AgentPart): boolean {
  return isNotice(part, 'retrying') || isNotice(part, 'retry-now');
}

function isNotice(part: AgentPart, kind: string): boolean {
  return part.type === 'data-notice' && part.data.kind === kind;
}
