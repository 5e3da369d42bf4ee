import { caretUpIcon } from '@jupyterlab/ui-components';
import { PathExt } from '@jupyterlab/coreutils';
import * as React from 'react';
import type { IApproval, IApprovalAnswer } from '../api/protocol';
import { questionsOf } from '../chat/denial';
import { legible, pieces } from '../wording/oddCharacters';
import { exceptionOf, scopeOf } from '../wording/questionFacts';
import { describeQuestions, isEdit } from '../wording/questions';
import { Act } from './Act';
import type { IMenuItem } from './Menu';
import { MenuButton } from './Menu';
import { DecideButton, ReadBox, useChord, useReading } from './ReadFirst';
import {
  useAssistant,
  useConversation,
  useIsReason,
  useModeOffer,
  useNotebookInFront,
  useServices,
  useTools
} from './services';

/** The question that the turn is waiting for, with exactly what would happen. */
export function Approvals(): React.JSX.Element | null {
  const { conversation } = useAssistant();
  useConversation();
  const [first, ...others] = questionsOf(conversation.approvals);
  return first ? (
    <Card key={first[0].group ?? first[0].id} approvals={first} others={others.length} />
  ) : null;
}

interface ICardProps {
  /** The approvals that form one question and are answered together. */
  approvals: readonly IApproval[];
  /** Number of further questions. */
  others: number;
}

function Card({ approvals, others }: ICardProps): React.JSX.Element {
  const { denial, notebooks, focusMessage, offer, trans } = useServices();
  const { conversation, mode } = useAssistant();
  const tools = useTools();
  const front = useNotebookInFront();
  const offered = useModeOffer();
  useIsReason();
  const card = React.useRef<HTMLDivElement>(null);
  const reader = useReading();
  const { read, reading } = reader;
  const [whole, setWhole] = React.useState(false);
  const answer = (how: Omit<IApprovalAnswer, 'id'>): void => {
    focusMessage(); // not on the next question, which another Enter would answer unread
    void conversation.answer(approvals.map(({ id }) => ({ id, ...how })));
  };
  const allow = (): void => {
    answer({ approved: true });
    offer.count();
  };
  const deny = (): void => {
    focusMessage();
    denial.deny(approvals);
  };
  const keys = useChord(card, reader, allow);
  const locate = (cell_id: string): number | null => {
    const [{ notebook }] = approvals;
    return notebook ? notebooks.position({ notebook, cell_id }) : null;
  };
  const concerned = new Set(approvals.map(({ notebook }) => notebook ?? front));
  const named = concerned.size > 1 || !concerned.has(front);
  const known = [...concerned, front].map(path => legible(path ?? ''));
  const names = named ? [...concerned].map(path => legible(path ?? '')) : [];
  const words = trans.__('%1?', describeQuestions(approvals, locate, tools, trans));
  const loads = approvals.some(approval => approval.loads?.length); // only this one is allowed
  const asks = mode === 'ask' && approvals.some(approval => isEdit(approval, tools)) && !loads;
  const scopes = useScopes(approvals, asks, answer);
  const byNotebook = [...Map.groupBy(approvals, ({ notebook }) => notebook)];
  const acts = (of: readonly IApproval[]): React.JSX.Element[] =>
    of.map(approval => (
      <Act
        key={approval.id}
        approval={approval}
        one={approvals.length === 1}
        whole={whole}
        onShowAll={() => setWhole(true)}
      />
    ));
  return (
    <div
      role="group"
      aria-label={[words, ...names].join(' ')}
      className="jp-Agent-approval"
      ref={card}
    >
      <div className="jp-Agent-approvalHead">
        <strong>{words}</strong>
        {concerned.size === 1 && names.map(name => <Chip key={name} path={name} among={known} />)}
        {others > 0 && (
          <span className="jp-Agent-note">
            {trans._n('and 1 more question', 'and %1 more questions', others)}
          </span>
        )}
      </div>
      <Tricks approvals={approvals} />
      <ReadBox reading={reading} label={trans.__('Code to approve')}>
        {byNotebook.length > 1
          ? byNotebook.map(([notebook, own]) => (
              <section key={notebook} aria-label={legible(notebook ?? '')}>
                <Chip path={legible(notebook ?? trans.__('No notebook'))} among={known} />
                {acts(own)}
              </section>
            ))
          : acts(approvals)}
      </ReadBox>
      {asks && offered && <Offer read={read} answer={answer} />}
      <div className="jp-Agent-decision">
        <DecideButton
          read={read}
          reading={reading}
          label={trans.__('Allow')}
          keys={keys}
          onDecide={allow}
        />
        <button className="jp-Agent-button" onClick={deny}>
          {trans.__('Deny')}
        </button>
        {!loads && (
          <MenuButton
            label={trans.__('Allow more')}
            className="jp-Agent-button"
            side="end"
            items={scopes}
            disabled={!read}
          >
            {trans.__('Allow more')}
            <caretUpIcon.react tag="span" className="jp-Agent-caret" />
          </MenuButton>
        )}
      </div>
    </div>
  );
}

/** A notebook by its name, or by its path if another one in view has that name. */
function Chip(props: { path: string; among: readonly string[] }): React.JSX.Element {
  const { path, among } = props;
  const name = PathExt.basename(path);
  const isOnly = among.every(other => other === path || PathExt.basename(other) !== name);
  return (
    <span className="jp-Agent-chip" title={path}>
      <span>{isOnly ? name : path}</span>
    </span>
  );
}

type Answer = (how: Omit<IApprovalAnswer, 'id'>) => void;

/** The longer approvals that can be given, each with exactly what it covers. */
function useScopes(approvals: readonly IApproval[], asks: boolean, answer: Answer): IMenuItem[] {
  const { assistant, trans } = useServices();
  const tools = useTools();
  const ofEdits: IMenuItem[] = [
    {
      label: trans.__('All edits in this answer'),
      run: () => answer({ approved: true, remember: 'turn' })
    }
  ];
  const edit: IMenuItem[] = [
    {
      label: trans.__('Switch to Edit'),
      about: trans.__('Edits freely, asks before running'),
      run: () => {
        assistant.setMode('edit');
        answer({ approved: true, remember: 'turn' });
      }
    }
  ];
  return [
    ...(asks ? ofEdits : []),
    {
      label: scopeOf(approvals, tools, trans),
      about: exceptionOf(approvals, tools, trans),
      run: () => answer({ approved: true, remember: 'conversation' })
    },
    ...(asks ? edit : [])
  ];
}

/** Warns that the question contains deceptive characters, even in parts that are not in view. */
function Tricks({ approvals }: { approvals: readonly IApproval[] }): React.JSX.Element | null {
  const { trans } = useServices();
  const text = approvals
    .map(({ code, diff, server, input }) =>
      [code, diff, server && JSON.stringify(input)].join('\n')
    )
    .join('\n');
  const tricks = React.useMemo(() => new Set(pieces(text).map(({ trick }) => trick)), [text]);
  const [invisible, lookalike] = [tricks.has('invisible'), tricks.has('lookalike')];
  return invisible || lookalike ? (
    <p role="note" className="jp-Agent-tricks">
      {invisible && trans.__('It contains hidden characters.')}{' '}
      {lookalike && trans.__('It contains lookalike words.')}
    </p>
  ) : null;
}

/** Offers the mode in which edits need no approval, to users who allow them all. */
function Offer(props: {
  /** Whether the user has seen the whole question. */
  read: boolean;
  answer: Answer;
}): React.JSX.Element {
  const { assistant, offer, trans } = useServices();
  const accept = (): void => {
    assistant.setMode('edit');
    offer.close();
    props.answer({ approved: true, remember: 'turn' });
  };
  return (
    <p role="note" className="jp-Agent-offer">
      {trans.__('Stop asking about edits? Runs will still need approval, and you can undo.')}{' '}
      <button className="jp-Agent-link" disabled={!props.read} onClick={accept}>
        {trans.__('Allow and switch to Edit')}
      </button>{' '}
      <button className="jp-Agent-link" onClick={() => offer.close()}>
        {trans.__('Keep asking')}
      </button>
    </p>
  );
}
