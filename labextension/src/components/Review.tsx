import type { TranslationBundle } from '@jupyterlab/translation';
import { undoIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import { notifyErrors } from '../wording/notifyErrors';
import type { ICellRef, IChange, IUndone } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import { cellsOf, describeConflict } from '../review/conflicts';
import { countOf } from '../review/countWords';
import type { IPendingCell } from '../review/pending';
import { listOf } from '../wording/cellNames';
import { legible } from '../wording/oddCharacters';
import { intoView } from './intoView';
import { keepFocus } from './lateFocus';
import {
  useAssistant,
  useChangeWalk,
  useConversation,
  useNotebookInFront,
  usePending,
  useServices
} from './services';

interface IReviewProps {
  turnId: string;
  changes: readonly IChange[];
}

/** Buttons to keep or undo these changes. */
export function Review({ turnId, changes }: IReviewProps): React.JSX.Element | null {
  const { trans } = useServices();
  const { conversation } = useAssistant();
  const edits = changes.filter(isEdit);
  if (!edits.length) {
    return null;
  }
  if (edits.every(change => change.undone)) {
    return <span className="jp-Agent-note">{trans.__('Undone')}</span>;
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
        {trans.__('Undo')}
      </button>
    </>
  );
}

/** Undoes an answer; still available when its changes are kept. */
export function UndoAnswer({ turnId, changes }: IReviewProps): React.JSX.Element | null {
  const { trans } = useServices();
  const { conversation } = useAssistant();
  const undone = useConversation().undone[turnId];
  const edits = changes.filter(isEdit);
  if (!edits.length) {
    return null;
  }
  return (
    <>
      {edits.some(change => !change.undone) ? (
        <button
          className="jp-Agent-footerButton"
          title={trans.__('Undo the changes of this answer')}
          onClick={() => void conversation.undo(turnId)}
        >
          <undoIcon.react tag="span" />
          {trans.__('Undo')}
        </button>
      ) : (
        <span className="jp-Agent-note">{trans.__('Changes undone')}</span>
      )}
      {undone && <Undone conflicts={undone.conflicts} remarks={undone.remarks} />}
    </>
  );
}

function Undone({ conflicts, remarks }: Pick<IUndone, 'conflicts' | 'remarks'>): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const front = useNotebookInFront();
  const places = conflicts.map(conflict => notebooks.position(conflict));
  const lines = new Map(
    conflicts.map((conflict, index) => {
      const isElsewhere = conflict.notebook !== front;
      const line = describeConflict(conflict, places[index], trans, isElsewhere);
      return [line, places[index] ? conflict : null];
    })
  );
  return (
    <div role="status" className="jp-Agent-undone jp-Agent-opened" ref={intoView}>
      <p>
        {conflicts.length
          ? trans.__('Undone, except %1. Kernel variables are unchanged.', cellsOf(places, trans))
          : trans.__('Undone. Kernel variables are unchanged.')}
      </p>
      {remarks.map(remark => (
        <p key={remark}>{remark}</p>
      ))}
      {[...lines].map(([line, conflict]) => (
        <p key={line}>
          {conflict ? (
            <button className="jp-Agent-link" onClick={() => void notebooks.reveal(conflict)}>
              {line}
            </button>
          ) : (
            line
          )}
        </p>
      ))}
    </div>
  );
}

/** The bar for all changes waiting for review: moves through them, and keeps or undoes them. */
export function ReviewBar(): React.JSX.Element | null {
  const { keysOf, notebooks, reviews, walk, trans } = useServices();
  const { cells, current } = useChangeWalk();
  const pending = usePending();
  const { messages } = useConversation();
  useNotebookInFront();
  const [left, setLeft] = React.useState<{ conflicts: IUndone['conflicts']; at: number } | null>(
    null
  );
  const told = left?.at === messages.length && left.conflicts.length > 0; // until the next message
  if (!cells.length && !told) {
    return null;
  }
  const waiting = [...pending.values()].flatMap(own => own.cells);
  const go = async (button: HTMLButtonElement, step: 1 | -1): Promise<void> => {
    await keepFocus(button, walk.go(step)); // the notebook that comes to the front would take the focus
  };
  const step = (sign: string, label: string, command: string, by: 1 | -1): React.JSX.Element => {
    const keys = keysOf(command);
    return (
      <button
        className="jp-Agent-button jp-Agent-step"
        aria-label={label}
        title={keys ? trans.__('%1 (%2)', label, keys) : label}
        onClick={event => void go(event.currentTarget, by)}
      >
        {sign}
      </button>
    );
  };
  const decide = async (work: () => Promise<IUndone['conflicts'] | void>): Promise<void> => {
    setLeft(null);
    await notifyErrors(async () => {
      setLeft({ conflicts: (await work()) ?? [], at: messages.length });
    }, trans);
  };
  return (
    <div role="group" aria-label={trans.__('Changes')} className="jp-Agent-reviewBar">
      {cells.length > 0 && (
        <div className="jp-Agent-reviewLine">
          <span role="status">{countOf(cells, current, trans)}</span>
          <span className="jp-Agent-note">{placesOfChanges(cells, notebooks, trans)}</span>
          <span className="jp-Agent-reviewButtons">
            {step('‹', trans.__('Previous change'), 'previous-change', -1)}
            {step('›', trans.__('Next change'), 'next-change', 1)}
            <button
              className="jp-Agent-button"
              disabled={cells.some(cell => reviews.isRunning(cell))}
              onClick={() => void decide(() => reviews.revert(waiting))}
            >
              {trans.__('Undo all')}
            </button>
            <button
              className="jp-Agent-button jp-mod-primary"
              onClick={() => void decide(() => reviews.keep(waiting))}
            >
              {trans.__('Keep all')}
            </button>
          </span>
        </div>
      )}
      {told && <Undone conflicts={left.conflicts} remarks={[]} />}
    </div>
  );
}

/** "cells 4, 6", "sales.ipynb", or "3 notebooks". */
function placesOfChanges(
  cells: readonly IPendingCell[],
  notebooks: OpenNotebooks,
  trans: TranslationBundle
): string {
  const paths = new Set(cells.map(({ notebook }) => notebook));
  if (paths.size > 1) {
    return trans.__('%1 notebooks', paths.size);
  }
  const [notebook] = paths;
  if (notebook !== notebooks.place?.notebook) {
    return legible(notebook);
  }
  const there = cells.filter(({ sign }) => sign !== '−').map(({ cell_id }) => cell_id);
  const locate = (cell_id: string): number | null => notebooks.position({ notebook, cell_id });
  return there.length ? listOf(there, locate, trans) : '';
}

function isEdit(change: IChange): boolean {
  return change.kind !== 'outputs';
}
