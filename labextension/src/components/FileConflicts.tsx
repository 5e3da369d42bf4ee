import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { IFileConflict } from '../review/fileConflicts';
import { Decision } from './Decision';
import type { Choice } from './Decision';
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
  const { trans } = useServices();
  const { notebook, cell, theirs } = conflict;
  return (
    <Decision
      label={trans.__('Changed here and in the file')}
      cell={{ notebook, cell_id: cell }}
      type={theirs?.cell_type}
      question={name => question(conflict, name, trans)}
      reason={trans.__('The file was changed while this page was away. What is here was kept.')}
      text={theirs?.source ?? ''}
      others={others}
      choices={useChoices(conflict)}
    />
  );
}

/** What is in the cell is looked up when the user chooses: they may have typed meanwhile. */
function useChoices(conflict: IFileConflict): readonly Choice[] {
  const { conflicts, notebooks, trans } = useServices();
  const { notebook, cell, theirs } = conflict;
  const ref = { notebook, cell_id: cell };
  const choice = (words: string, act?: () => void): Choice => [
    words,
    () => {
      act?.();
      conflicts.settle(conflict);
    }
  ];
  if (!theirs) {
    return [
      choice(trans.__('Keep it')),
      choice(trans.__('Delete it'), () => notebooks.remove(ref))
    ];
  }
  if (notebooks.source(ref) === null) {
    return [
      choice(trans.__('Leave it deleted')),
      choice(trans.__('Bring it back'), () => notebooks.restore(notebook, theirs))
    ];
  }
  const { source } = theirs;
  return [
    choice(trans.__('Keep this page’s')),
    choice(trans.__('Use the file’s'), () => notebooks.rewrite(ref, source)),
    choice(trans.__('Keep both'), () =>
      notebooks.rewrite(ref, `${notebooks.source(ref)}\n${source}`)
    )
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
