import * as React from 'react';
import { parseDiff } from '../diff';
import type { IApproval, IApprovalAnswer } from '../protocol';
import { describeQuestion } from '../words';
import { Code, Diff } from './Code';
import { useAssistant, useConversation, useServices } from './services';

/** The question that the turn waits for, with exactly what would happen. */
export function Approvals(): React.JSX.Element | null {
  const { conversation } = useAssistant();
  useConversation();
  const [approval, ...others] = conversation.approvals;
  return approval ? <Card key={approval.id} approval={approval} others={others.length} /> : null;
}

function Card({ approval, others }: { approval: IApproval; others: number }): React.JSX.Element {
  const { notebooks, focusMessage, trans } = useServices();
  const { conversation, place } = useAssistant();
  const [reason, setReason] = React.useState('');
  const answer = (how: Omit<IApprovalAnswer, 'id'>): void => {
    focusMessage(); // not the next question, which one more Enter would answer unread
    void conversation.answer({ id: approval.id, ...how });
  };
  const deny = (): void => answer({ approved: false, reason: reason.trim() || undefined });
  const { notebook, code, diff } = approval;
  const locate = (id: string): number | null =>
    notebook ? notebooks.position({ notebook, cell_id: id }) : null;
  const title = describeQuestion(approval, locate, trans);
  const elsewhere = notebook && notebook !== place?.notebook;
  return (
    <div role="group" aria-label={title} className="jp-Agent-approval">
      <div className="jp-Agent-callHead">
        <strong>{title}</strong>
        <span className="jp-Agent-note">
          {elsewhere && notebook}{' '}
          {others > 0 && trans._n('and 1 more question', 'and %1 more questions', others)}
        </span>
      </div>
      <div className="jp-Agent-approvalBody">
        {code && <Code text={code} mimeType={notebooks.mimeType(notebook)} />}
        {diff && <Diff lines={parseDiff(diff)} mimeType={notebooks.mimeType(notebook)} />}
      </div>
      <div className="jp-Agent-buttons">
        <button
          className="jp-Agent-button jp-mod-primary"
          onClick={() => answer({ approved: true })}
        >
          {trans.__('Allow')}
        </button>
        <button
          className="jp-Agent-button"
          onClick={() => answer({ approved: true, remember: 'conversation' })}
        >
          {trans.__('Always allow here')}
        </button>
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
              deny();
            }
          }}
        />
      </div>
    </div>
  );
}
