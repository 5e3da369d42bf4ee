import * as React from 'react';
import type { AgentMessage, AgentPart, IChange, INotice } from '../api/protocol';
import type { IFold, Section } from '../chat/answerSections';
import { abandonedParts, foldWork, sectionsOf } from '../chat/answerSections';
import { retryOf } from '../chat/message';
import { currentCall, notebookOf } from '../wording/callDescriptions';
import { failureWords } from '../wording/failureWords';
import { noticeWords } from '../wording/noticeWords';
import { retriedWords } from '../wording/retryWords';
import { AnswerFooter } from './AnswerFooter';
import { Boundary } from './Boundary';
import { Markdown } from './Markdown';
import { UndoAnswer } from './Review';
import { useServices } from './services';
import type { IWorkContext } from './Work';
import { FoldedWork, Thinking, Work } from './Work';

const NONE: readonly IChange[] = [];

interface IAnswerProps {
  message: AgentMessage;
  /** Whether it is the last message. */
  recent: boolean;
  /** Whether it is still growing. */
  running: boolean;
  /** The current state of its changes, once they have been read. */
  changes: readonly IChange[] | undefined;
}

/** The text and work of an answer, in order. */
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
  const home = metadata?.notebook ?? null;
  const context: IWorkContext = {
    changes: own,
    notebook: home,
    turnId,
    several: new Set(notebooksOf(parts, own, home)).size > 1,
    running,
    current: parts.some(isAsking) ? undefined : currentCall(parts),
    abandoned
  };
  const retry = running ? retryOf(message) : null;
  const sections = sectionsOf(parts, notice => isShown(notice, retry, recent));
  const finished = !running && metadata?.stopReason !== undefined;
  const shown: readonly (Section | IFold)[] = finished ? foldWork(sections) : sections;
  const folds = shown.filter(({ type }) => type === 'fold').length;
  const renderSection = (section: Section, index: number): React.JSX.Element => (
    <Boundary key={index} trans={trans} of={section}>
      <SectionView section={section} context={context} model={metadata?.model} />
    </Boundary>
  );
  const undo = <UndoAnswer turnId={turnId} changes={changes ?? [...own.values()].flat()} />;
  return (
    <article
      className="jp-Agent-answer"
      aria-label={trans.__('Answer')}
      data-turn={turnId}
      data-recent={recent}
    >
      {shown.map((section, index) =>
        section.type === 'fold' ? (
          <Boundary key={index} trans={trans} of={section}>
            <FoldedWork
              fold={section}
              context={context}
              seconds={folds === 1 ? (metadata?.seconds ?? null) : null}
              renderSection={renderSection}
            />
          </Boundary>
        ) : (
          renderSection(section, index)
        )
      )}
      {!running && turnId && (
        <>
          {recent && hasFailed(parts) ? (
            <div className="jp-Agent-footer">{undo}</div>
          ) : (
            <AnswerFooter message={message} turnId={turnId} recent={recent}>
              {undo}
            </AnswerFooter>
          )}
        </>
      )}
    </article>
  );
});

interface ISectionProps {
  section: Section;
  context: IWorkContext;
  /** The model of the turn. */
  model: string | undefined;
}

function SectionView({ section, context, model }: ISectionProps): React.JSX.Element | null {
  if (section.type === 'work') {
    return <Work parts={section.parts} context={context} />;
  }
  const { part } = section;
  return (
    <div className={context.abandoned.has(part) ? 'jp-Agent-abandoned' : undefined}>
      {part.type === 'text' && <Markdown text={part.text} />}
      {part.type === 'reasoning' && <Thinking text={part.text} live={part.state === 'streaming'} />}
      {part.type === 'data-notice' && <Notice notice={part.data} model={model} />}
    </div>
  );
}

/** Whether a notice is shown at its place; a pending retry and the last failure are shown at the end. */
function isShown(notice: INotice, retry: INotice | null, recent: boolean): boolean {
  switch (notice.kind) {
    case 'approval':
      return false;
    case 'answered':
      return reasonsOf(notice).length > 0;
    case 'failed':
      return !recent;
    case 'retrying':
      return notice !== retry && !notice.until; // a time that has passed is of no use
    default:
      return notice.kind === 'fallback' || Boolean(notice.text);
  }
}

interface INoticeProps {
  notice: INotice;
  model: string | undefined;
}

function Notice({ notice, model }: INoticeProps): React.JSX.Element {
  const { trans } = useServices();
  switch (notice.kind) {
    case 'answered':
      return <Reply text={reasonsOf(notice).join('\n\n')} />;
    case 'failed':
      return <p className="jp-Agent-failure">{failureWords(notice, model, trans)}</p>;
    case 'retrying':
      return <p className="jp-Agent-notice">{retriedWords(notice, trans)}</p>;
    default:
      return <p className="jp-Agent-notice">{noticeWords(notice, trans)}</p>;
  }
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

function reasonsOf({ approvals = [] }: INotice): string[] {
  return [...new Set(approvals.flatMap(({ reason }) => reason ?? []))];
}

/** Whether it ended with a failure, which has its own next step. */
function hasFailed(parts: readonly AgentPart[]): boolean {
  const last = parts.at(-1);
  return last?.type === 'data-notice' && last.data.kind === 'failed';
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
 * The changes that an answer reports, by call. The arrays are reused, so that an unchanged call is not rendered again.
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
