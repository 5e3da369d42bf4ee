import * as React from 'react';
import { diffLines } from '../review/diff';
import type { ICellRef } from '../api/protocol';
import { legible } from '../wording/oddCharacters';
import { Diff } from './Code';
import { useNotebookInFront, useServices } from './services';

/** The label of a button, and its action. */
export type Choice = readonly [string, () => void];

/** Asks the user which text a cell should have. */
export function Decision(props: {
  label: string;
  cell: ICellRef;
  /** The type of a cell that does not exist. */
  type?: string;
  /** The question about a cell with that name. */
  question: (name: string) => string;
  reason: string;
  /** The proposed text of the cell. */
  text: string;
  /** Number of further cells to decide on. */
  others: number;
  choices: readonly Choice[];
}): React.JSX.Element {
  const { label, cell, type, question, reason, text, others, choices } = props;
  const { notebooks, trans } = useServices();
  const front = useNotebookInFront();
  const { notebook, cell_id } = cell;
  const now = notebooks.source(cell);
  const position = notebooks.position(cell);
  const place = position ? trans.__('Cell %1', position) : trans.__('A cell');
  const name = notebook === front ? place : trans.__('%1 in %2', place, legible(notebook));
  return (
    <div role="group" aria-label={label} className="jp-Agent-approval">
      <div className="jp-Agent-callHead">
        <strong>{question(name)}</strong>
        {others > 0 && (
          <span className="jp-Agent-note">
            {trans._n('and 1 more cell', 'and %1 more cells', others)}
          </span>
        )}
      </div>
      <p className="jp-Agent-act">
        {reason}{' '}
        {now !== null && (
          <button className="jp-Agent-link" onClick={() => void notebooks.reveal(cell)}>
            {trans.__('Show')}
          </button>
        )}
      </p>
      <Diff
        lines={diffLines(now ?? '', text)}
        mimeType={notebooks.mimeType(notebook, cell_id, type)}
      />
      <div className="jp-Agent-buttons">
        {choices.map(([words, choose]) => (
          <button key={words} className="jp-Agent-button" onClick={choose}>
            {words}
          </button>
        ))}
      </div>
    </div>
  );
}
