import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { diffLines } from '../review/diff';
import type { IFileConflict } from '../review/fileConflicts';
import { legible } from '../wording/oddCharacters';
import { Diff } from './Code';
import { useAssistant, useFileConflicts, useNotebookInFront, useServices } from './services';

/** The first cell of which page and file could not both be kept, with what can be done about it. */
export function FileConflicts(): React.JSX.Element | null {
  const { view } = useAssistant();
  const { notebooks } = useServices();
  const conflicts = useFileConflicts();
  useNotebookInFront(); // which notebooks are open changes with it
  const open = conflicts.filter(({ notebook }) => notebooks.paths.includes(notebook));
  const [first] = open;
  if (!first || view !== 'conversation') {
    return null;
  }
  return <Card key={first.notebook + first.cell} conflict={first} others={open.length - 1} />;
}

function Card({
  conflict,
  others
}: {
  conflict: IFileConflict;
  others: number;
}): React.JSX.Element {
  const { conflicts, notebooks, trans } = useServices();
  const front = useNotebookInFront();
  const { notebook, cell, theirs } = conflict;
  const ref = { notebook, cell_id: cell };
  const now = notebooks.source(ref);
  const position = notebooks.position(ref);
  const place = position ? trans.__('Cell %1', position) : trans.__('A cell');
  const name = notebook === front ? place : trans.__('%1 in %2', place, legible(notebook));
  const settle = (source: Choice[1]): void => {
    if (source !== undefined) {
      notebooks.replace(ref, source, theirs);
    }
    conflicts.settle(conflict);
  };
  return (
    <div
      role="group"
      aria-label={trans.__('Changed here and in the file')}
      className="jp-Agent-approval"
    >
      <div className="jp-Agent-callHead">
        <strong>{question(conflict, name, trans)}</strong>
        {others > 0 && (
          <span className="jp-Agent-note">
            {trans._n('and 1 more cell', 'and %1 more cells', others)}
          </span>
        )}
      </div>
      <p className="jp-Agent-act">
        {trans.__('The file was changed while this page was away. What is here was kept.')}{' '}
        {now !== null && (
          <button className="jp-Agent-link" onClick={() => void notebooks.reveal(ref)}>
            {trans.__('Show')}
          </button>
        )}
      </p>
      <Diff
        lines={diffLines(now ?? '', theirs?.source ?? '')}
        mimeType={notebooks.mimeType(notebook, cell, theirs?.cell_type)}
      />
      <div className="jp-Agent-buttons">
        {choices(theirs, now, trans).map(([label, source]) => (
          <button key={label} className="jp-Agent-button" onClick={() => settle(source)}>
            {label}
          </button>
        ))}
      </div>
    </div>
  );
}

/** The words of a button, and the text that the cell then gets: none leaves it as it is, null deletes it. */
type Choice = readonly [string, (string | null)?];

function choices(
  theirs: IFileConflict['theirs'],
  now: string | null,
  trans: TranslationBundle
): readonly Choice[] {
  if (!theirs) {
    return [[trans.__('Keep it')], [trans.__('Delete it'), null]];
  }
  if (now === null) {
    return [[trans.__('Leave it deleted')], [trans.__('Bring it back'), theirs.source]];
  }
  return [
    [trans.__('Keep this page’s')],
    [trans.__('Use the file’s'), theirs.source],
    [trans.__('Keep both'), `${now}\n${theirs.source}`]
  ];
}

function question({ mine, theirs }: IFileConflict, name: string, trans: TranslationBundle): string {
  if (!theirs) {
    return trans.__('%1 was deleted in the file. Keep it?', name);
  }
  return mine === null
    ? trans.__('A cell that you deleted was changed in the file. Bring it back?')
    : trans.__('%1 was changed here and in the file. Which one?', name);
}
