import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { ICellRef, IChange, IUndone } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import { describeConflict } from '../review/conflicts';
import { diffLines } from '../review/diff';
import { legible } from '../wording/oddCharacters';
import { Diff, LineCount } from './Code';
import {
  useAssistant,
  useConversation,
  useNotebookInFront,
  usePending,
  useServices
} from './services';

interface IReviewProps {
  turnId: string;
  changes: readonly IChange[];
}

/** Keep or take back what was done to the cells of these changes. */
export function Review({ turnId, changes }: IReviewProps): React.JSX.Element | null {
  const { trans } = useServices();
  const { conversation } = useAssistant();
  const edits = changes.filter(isEdit);
  if (!edits.length) {
    return null;
  }
  if (edits.every(change => change.undone)) {
    return <span className="jp-Agent-note">{trans.__('Reverted')}</span>;
  }
  if (edits.every(change => change.reviewed)) {
    return <span className="jp-Agent-note">{trans.__('Kept')}</span>;
  }
  const cells = edits.map(({ notebook, cell_id }): ICellRef => ({ notebook, cell_id }));
  const conflict = edits.find(change => change.conflict)?.conflict;
  return (
    <>
      {conflict && <p className="jp-Agent-conflict">{conflict}</p>}
      <button className="jp-Agent-button" onClick={() => void conversation.accept(turnId, cells)}>
        {trans.__('Keep')}
      </button>
      <button className="jp-Agent-button" onClick={() => void conversation.undo(turnId, cells)}>
        {trans.__('Revert')}
      </button>
    </>
  );
}

/** The end of a turn that changed something: how many cells, and what can be done about it. */
export function TurnEnd({ turnId, changes }: IReviewProps): React.JSX.Element | null {
  const { trans } = useServices();
  const { conversation } = useAssistant();
  const [reviewing, setReviewing] = React.useState(false);
  const [undone, setUndone] = React.useState<IUndone | null>(null);
  const front = useNotebookInFront();
  const cells = byCell(changes.filter(isEdit));
  const several = new Set(cells.map(([{ notebook }]) => notebook)).size > 1;
  if (!cells.length) {
    return null;
  }
  const open = cells.filter(cell => cell.some(change => !change.undone)).length;
  return (
    <div className="jp-Agent-turnEnd">
      <div className="jp-Agent-turnLine">
        <span>
          {open
            ? trans._n('1 cell changed', '%1 cells changed', open)
            : trans.__('This turn was undone')}
        </span>
        <button
          className="jp-Agent-button"
          aria-expanded={reviewing}
          onClick={() => setReviewing(!reviewing)}
        >
          {trans.__('Review')}
        </button>
        {cells.some(cell => cell.some(isOpen)) && (
          <button className="jp-Agent-button" onClick={() => void conversation.accept(turnId)}>
            {trans.__('Keep turn')}
          </button>
        )}
        {open > 0 && (
          <button
            className="jp-Agent-button"
            onClick={() => void conversation.undo(turnId).then(setUndone)}
          >
            {trans.__('Undo turn')}
          </button>
        )}
      </div>
      {undone && <Undone undone={undone} />}
      {reviewing && (
        <div ref={intoView} className="jp-Agent-opened">
          {cells.map(cell => {
            const [{ notebook, cell_id }] = cell;
            return (
              <CellReview
                key={`${notebook}\0${cell_id}`}
                turnId={turnId}
                changes={cell}
                named={several || notebook !== front}
              />
            );
          })}
        </div>
      )}
    </div>
  );
}

/** What a turn did to one cell, all its steps taken together. */
function CellReview(props: IReviewProps & { named: boolean }): React.JSX.Element {
  const { turnId, changes, named } = props;
  const { notebooks, trans } = useServices();
  const { notebook, cell_id, before } = changes[0];
  const after = changes[changes.length - 1].after;
  const lines = diffLines(before?.source ?? '', after?.source ?? '');
  const place = nameOfCell({ notebook, cell_id }, !after, notebooks, trans);
  const name = named ? trans.__('%1 in %2', place, legible(notebook)) : place;
  return (
    <div role="group" aria-label={name} className="jp-Agent-cellReview">
      <div className="jp-Agent-callHead">
        <button
          className="jp-Agent-link"
          onClick={() => void notebooks.reveal({ notebook, cell_id })}
        >
          {name}
        </button>
        <LineCount lines={lines} />
      </div>
      <Diff
        lines={lines}
        mimeType={notebooks.mimeType(notebook, cell_id, (after ?? before)?.type)}
      />
      <div className="jp-Agent-buttons">
        <Review turnId={turnId} changes={changes} />
      </div>
    </div>
  );
}

function Undone({ undone: { conflicts } }: { undone: IUndone }): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const front = useNotebookInFront();
  return (
    <div role="status" className="jp-Agent-undone jp-Agent-opened" ref={intoView}>
      <p>
        {conflicts.length
          ? trans.__('The rest is undone. What ran in the kernel stays as it is.')
          : trans.__('Undone. What ran in the kernel stays as it is.')}
      </p>
      {conflicts.map(conflict => (
        <p key={`${conflict.notebook} ${conflict.cell_id}`}>
          <button className="jp-Agent-link" onClick={() => void notebooks.reveal(conflict)}>
            {describeConflict(
              conflict,
              notebooks.position(conflict),
              trans,
              conflict.notebook !== front
            )}
          </button>
        </p>
      ))}
    </div>
  );
}

/** Where several turns wait for review in the notebook of the conversation: decide on all at once. */
export function PendingReview(): React.JSX.Element | null {
  const { reviews, trans } = useServices();
  const { messages, progress } = useConversation();
  const notebook = messages.at(-1)?.metadata?.notebook ?? '';
  const { cells, turns } = usePending().get(notebook) ?? { cells: [], turns: [] };
  const [conflicts, setConflicts] = React.useState<IUndone['conflicts']>([]);
  if (progress === 'running' || (turns.length < 2 && !conflicts.length)) {
    return null;
  }
  return (
    <div role="group" aria-label={trans.__('All changes')} className="jp-Agent-turnEnd">
      {turns.length > 1 && (
        <div className="jp-Agent-turnLine">
          <span>
            {trans._n(
              '1 cell of %2 turns to review',
              '%1 cells of %2 turns to review',
              cells.length,
              turns.length
            )}
          </span>
          <button className="jp-Agent-button" onClick={() => void reviews.keep(cells, turns)}>
            {trans.__('Keep all')}
          </button>
          <button
            className="jp-Agent-button"
            onClick={() => void reviews.revert(cells, turns).then(setConflicts)}
          >
            {trans.__('Revert all')}
          </button>
        </div>
      )}
      {conflicts.length > 0 && <Undone undone={{ undone: [], conflicts }} />}
    </div>
  );
}

function nameOfCell(
  cell: ICellRef,
  deleted: boolean,
  notebooks: OpenNotebooks,
  trans: TranslationBundle
): string {
  const position = notebooks.position(cell);
  if (position) {
    return trans.__('Cell %1', position);
  }
  return deleted ? trans.__('Deleted cell') : trans.__('Cell'); // of a notebook that is not open
}

/** What a click opened comes into view, with its beginning where it is larger than that. */
function intoView(opened: HTMLElement | null): void {
  opened?.scrollIntoView({ block: 'nearest' });
}

function isOpen(change: IChange): boolean {
  return !change.reviewed && !change.undone;
}

function isEdit(change: IChange): boolean {
  return change.kind !== 'outputs';
}

function byCell(changes: readonly IChange[]): IChange[][] {
  const cells = Map.groupBy(changes, ({ notebook, cell_id }) => `${notebook}\0${cell_id}`);
  return [...cells.values()];
}
