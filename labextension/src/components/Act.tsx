import * as React from 'react';
import type { IApproval } from '../api/protocol';
import { parseDiff } from '../review/diff';
import { legible, pieces } from '../wording/oddCharacters';
import { factsOf, nameOfEdit } from '../wording/questionFacts';
import { describeQuestion } from '../wording/questions';
import { Code, Diff } from './Code';
import { usePending, useServices, useTools } from './services';

interface IActProps {
  approval: IApproval;
  /** Whether it is the only call, so that the question describes it. */
  one: boolean;
  /** Whether cells that the user already knows are also shown in full. */
  whole: boolean;
  onShowAll: () => void;
}

/** The effect of one call: the code to run, or the lines to change. */
export function Act({ approval, one, whole, onShowAll }: IActProps): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const tools = useTools();
  const { notebook, cell_id, code, cells, diff, input } = approval;
  const locate = (id: string): number | null =>
    notebook ? notebooks.position({ notebook, cell_id: id }) : null;
  const isKnown = useKnownCells(notebook);
  const mimeType = notebooks.mimeType(notebook, cell_id, approval.cell_type);
  const several = approval.edits ?? [];
  const shown = several.length > 0 && several.every(({ cell_id: id }) => id === null); // the new cells are the only code
  const alone = code && !shown ? [{ cell_id: '', code }] : [];
  const runs = cells && cells.length > 1 ? cells : alone;
  const facts = factsOf(approval, trans);
  const folded = whole ? [] : runs.filter(isKnown);
  const nameOf = (id: string): string => trans.__('cell %1', locate(id) ?? legible(id));
  return (
    <div>
      {!one && <p className="jp-Agent-act">{describeQuestion(approval, locate, tools, trans)}</p>}
      {facts && <p className="jp-Agent-facts">{facts}</p>}
      {approval.server && (
        <Code text={JSON.stringify(input, null, 2)} mimeType="application/json" folded />
      )}
      <Loads addresses={approval.loads} />
      {several.map((edit, place) => (
        <React.Fragment key={edit.cell_id ?? place}>
          {(several.length > 1 || runs.length > 0) && (
            <p className="jp-Agent-note">{nameOfEdit(edit, locate, trans)}</p>
          )}
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
      {runs
        .filter(run => !folded.includes(run))
        .map(run => (
          <React.Fragment key={run.cell_id}>
            {run.cell_id && <p className="jp-Agent-note">{nameOf(run.cell_id)}</p>}
            <Code text={run.code} mimeType={mimeType} folded />
          </React.Fragment>
        ))}
      {folded.map(run => (
        <FoldedCell
          key={run.cell_id}
          name={nameOf(run.cell_id)}
          code={run.code}
          onShow={onShowAll}
        />
      ))}
      {diff && !several.length && <Diff lines={parseDiff(diff)} mimeType={mimeType} whole />}
    </div>
  );
}

interface IFoldedCellProps {
  name: string;
  code: string;
  onShow: () => void;
}

/** "cell 6  by_region = df.groupby(…  +1 line" */
function FoldedCell({ name, code, onShow }: IFoldedCellProps): React.JSX.Element {
  const { trans } = useServices();
  const [first, ...more] = code.trim().split('\n');
  return (
    <button
      className="jp-Agent-foldedCell"
      aria-expanded={false}
      title={trans.__('Show all code')}
      onClick={event => {
        event.currentTarget.closest<HTMLElement>('[tabindex]')?.focus(); // this button disappears
        onShow();
      }}
    >
      <span className="jp-Agent-note">{name}</span>
      <code>{first}</code>
      {more.length > 0 && (
        <span className="jp-Agent-note">{trans._n('+1 line', '+%1 lines', more.length)}</span>
      )}
    </button>
  );
}

/**
 * Whether the user knows the code of a cell to run: it is the same as in the open notebook, has no invisible or
 * lookalike characters, and the assistant has not changed it since the user last reviewed it.
 */
function useKnownCells(
  notebook: string | null
): (run: { cell_id: string; code: string }) => boolean {
  const { notebooks } = useServices();
  const pending = usePending().get(notebook ?? '');
  return ({ cell_id, code }) =>
    notebook !== null &&
    cell_id !== '' &&
    notebooks.source({ notebook, cell_id }) === code &&
    !pending?.cells.some(cell => cell.cell_id === cell_id) &&
    pieces(code).every(({ trick }) => trick === null);
}

/** Lists the addresses that a page loads from other servers as soon as it shows the cell. */
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
