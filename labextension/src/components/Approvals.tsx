import * as React from 'react';
import type { IApproval, IApprovalAnswer } from '../api/protocol';
import { parseDiff } from '../review/diff';
import { describeQuestion, describeQuestions, isEdit } from '../wording/callDescriptions';
import { legible, pieces } from '../wording/oddCharacters';
import { factsOf, nameOfEdit, scopeOf } from '../wording/questionFacts';
import { Code, Diff } from './Code';
import { DecideButton, ReadBox, useReading } from './ReadFirst';
import {
  useAssistant,
  useConversation,
  useModeOffer,
  useNotebookInFront,
  useServices
} from './services';

/** The question that the turn waits for, with exactly what would happen. */
export function Approvals(): React.JSX.Element | null {
  const { conversation } = useAssistant();
  useConversation();
  const groups = Map.groupBy(conversation.approvals, ({ group, id }) => group ?? id);
  const [first, ...others] = groups;
  return first ? <Card key={first[0]} approvals={first[1]} others={others.length} /> : null;
}

interface ICardProps {
  /** That are one question: they are answered together. */
  approvals: readonly IApproval[];
  /** How many questions wait behind this one. */
  others: number;
}

function Card({ approvals, others }: ICardProps): React.JSX.Element {
  const { notebooks, focusMessage, offer, trans } = useServices();
  const { conversation, mode } = useAssistant();
  const front = useNotebookInFront();
  const offered = useModeOffer();
  const [reason, setReason] = React.useState('');
  const { read, reading } = useReading();
  const answer = (how: Omit<IApprovalAnswer, 'id'>): void => {
    focusMessage(); // not the next question, which one more Enter would answer unread
    void conversation.answer(approvals.map(({ id }) => ({ id, ...how })));
  };
  const allow = (): void => {
    answer({ approved: true });
    offer.count();
  };
  const deny = (): void => answer({ approved: false, reason: reason.trim() || undefined });
  const locate = locateIn(approvals, notebooks);
  const concerned = new Set(approvals.map(({ notebook }) => notebook ?? front));
  const named = concerned.size > 1 || !concerned.has(front);
  const words = trans.__('%1?', describeQuestions(approvals, locate, trans, named));
  const loads = approvals.some(approval => approval.loads?.length); // this alone is allowed
  const asks = mode === 'ask' && approvals.some(isEdit) && !loads;
  const scopeId = React.useId();
  return (
    <div role="group" aria-label={words} className="jp-Agent-approval">
      <div className="jp-Agent-callHead">
        <strong>{words}</strong>
        {others > 0 && (
          <span className="jp-Agent-note">
            {trans._n('and 1 more question', 'and %1 more questions', others)}
          </span>
        )}
      </div>
      <Tricks approvals={approvals} />
      <ReadBox reading={reading} label={trans.__('What would happen')}>
        {approvals.map(approval => (
          <Act key={approval.id} approval={approval} one={approvals.length === 1} named={named} />
        ))}
      </ReadBox>
      {asks && offered && <Offer read={read} answer={answer} />}
      <div className="jp-Agent-buttons">
        <DecideButton read={read} reading={reading} label={trans.__('Allow')} onDecide={allow} />
        {asks && (
          <button
            className="jp-Agent-button"
            disabled={!read}
            title={trans.__('Allow this; the rest of this turn edits without asking')}
            onClick={() => answer({ approved: true, remember: 'turn' })}
          >
            {trans.__('Allow edits this turn')}
          </button>
        )}
        {!loads && (
          <button
            className="jp-Agent-button"
            disabled={!read}
            aria-describedby={scopeId}
            onClick={() => answer({ approved: true, remember: 'conversation' })}
          >
            {trans.__('Always allow here')}
          </button>
        )}
        <button className="jp-Agent-button" onClick={deny}>
          {trans.__('Deny')}
        </button>
        <input
          className="jp-mod-styled jp-Agent-reason"
          aria-label={trans.__('What to do instead')}
          placeholder={trans.__('Deny, and say what to do instead…')}
          value={reason}
          onChange={event => setReason(event.target.value)}
          onKeyDown={event => {
            if (event.key === 'Enter' && reason.trim() && !event.nativeEvent.isComposing) {
              event.preventDefault(); // the key would also reach the message field, which gets the focus
              deny();
            }
          }}
        />
      </div>
      {!loads && (
        <p id={scopeId} className="jp-Agent-scope">
          {scopeOf(approvals, trans)}
        </p>
      )}
    </div>
  );
}

interface IActProps {
  approval: IApproval;
  /** Whether it is the only one, and the question says what it does. */
  one: boolean;
  /** Whether it says in which notebook. */
  named: boolean;
}

/** What one call would do: the code that would run, or the lines that would change. */
function Act({ approval, one, named }: IActProps): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const { notebook, cell_id, code, cells, diff, input } = approval;
  const locate = locateIn([approval], notebooks);
  const mimeType = notebooks.mimeType(notebook, cell_id, approval.server ? undefined : input.type);
  const several = approval.edits ?? [];
  const shown = several.length > 0 && several.every(({ cell_id: id }) => id === null); // new cells are all code there is
  const alone = code && !shown ? [{ cell_id: '', code }] : [];
  const runs = cells && cells.length > 1 ? cells : alone;
  const facts = factsOf(approval, locate, trans);
  return (
    <div>
      {!one && <p className="jp-Agent-act">{describeQuestion(approval, locate, trans, named)}</p>}
      {facts && <p className="jp-Agent-facts">{facts}</p>}
      {approval.server && (
        <Code text={JSON.stringify(input, null, 2)} mimeType="application/json" folded />
      )}
      <Loads addresses={approval.loads} />
      {several.map((edit, place) => (
        <React.Fragment key={edit.cell_id ?? place}>
          <p className="jp-Agent-note">{nameOfEdit(edit, locate, trans)}</p>
          <Diff
            lines={parseDiff(edit.diff)}
            mimeType={notebooks.mimeType(notebook, edit.cell_id, edit.cell_type)}
            whole
          />
        </React.Fragment>
      ))}
      {several.length > 0 && runs.length > 0 && (
        <p className="jp-Agent-note">{trans.__('Then runs')}</p>
      )}
      {runs.map(run => (
        <React.Fragment key={run.cell_id}>
          {run.cell_id && (
            <p className="jp-Agent-note">
              {trans.__('Cell %1', locate(run.cell_id) ?? run.cell_id)}
            </p>
          )}
          <Code text={run.code} mimeType={mimeType} folded />
        </React.Fragment>
      ))}
      {diff && !several.length && <Diff lines={parseDiff(diff)} mimeType={mimeType} whole />}
    </div>
  );
}

/** Names what a page asks other servers for as soon as it shows the cell. */
function Loads({ addresses = [] }: { addresses?: readonly string[] }): React.JSX.Element | null {
  const { trans } = useServices();
  return addresses.length ? (
    <div role="note" className="jp-Agent-tricks">
      {trans.__(
        'As soon as this cell is shown, it contacts another server and sends it this address:'
      )}
      {addresses.map(address => (
        <code key={address} className="jp-Agent-address">
          {legible(address)}
        </code>
      ))}
    </div>
  ) : null;
}

/** Says that something in the question is not what it looks like, also where one does not scroll to it. */
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
      {invisible && trans.__('There are hidden characters in it.')}{' '}
      {lookalike && trans.__('There are words in it that look like others.')}
    </p>
  ) : null;
}

/** Offers the mode in which edits need no answer, to those who allow them all. */
function Offer(props: {
  /** Whether all that is asked about was seen. */
  read: boolean;
  answer: (how: Omit<IApprovalAnswer, 'id'>) => void;
}): React.JSX.Element {
  const { assistant, offer, trans } = useServices();
  const accept = (): void => {
    assistant.setMode('edit');
    offer.close();
    props.answer({ approved: true, remember: 'turn' });
  };
  return (
    <p role="note" className="jp-Agent-offer">
      {trans.__(
        'You allowed each of these. In mode Edit cells change without a question, and only runs are asked about; Undo turn takes any turn back.'
      )}{' '}
      <button className="jp-Agent-link" disabled={!props.read} onClick={accept}>
        {trans.__('Allow, and use Edit')}
      </button>{' '}
      <button className="jp-Agent-link" onClick={() => offer.close()}>
        {trans.__('Keep asking')}
      </button>
    </p>
  );
}

function locateIn(
  [{ notebook }]: readonly IApproval[],
  notebooks: { position: (cell: { notebook: string; cell_id: string }) => number | null }
): (id: string) => number | null {
  return id => (notebook ? notebooks.position({ notebook, cell_id: id }) : null);
}
