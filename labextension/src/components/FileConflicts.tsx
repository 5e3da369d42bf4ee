import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { IFileConflict } from '../review/fileConflicts';
import { Decision } from './Decision';
import type { Choice } from './Decision';
import {
  useAssistant,
  useFileConflicts,
  useNotebookInFront,
  useServices,
  useUnsavedTexts
} from './services';

interface IConflict extends IFileConflict {
  /** Ids of the cells above it in the file, nearest first. */
  above?: readonly string[];
  /** Mark it as decided. */
  settle: () => void;
}

/** The first cell whose versions in page and file could not be merged, with the possible choices. */
export function FileConflicts(): React.JSX.Element | null {
  const { view } = useAssistant();
  const { notebooks } = useServices();
  const conflicts = useConflicts();
  useNotebookInFront(); // the list of open notebooks changes with it
  const open = conflicts.filter(({ notebook }) => notebooks.paths.includes(notebook));
  const [first] = open;
  if (!first || view !== 'conversation') {
    return null;
  }
  return <Card key={first.notebook + first.cell} conflict={first} others={open.length - 1} />;
}

/** This page's conflicts, and those of rooms, which all pages of a room share. */
function useConflicts(): readonly IConflict[] {
  const { conflicts, unsaved, notebooks } = useServices();
  const own = useFileConflicts().map(conflict => ({
    ...conflict,
    settle: () => conflicts.settle(conflict)
  }));
  const shared = useUnsavedTexts()
    .filter(({ cause }) => cause === 'file')
    .map(text => {
      const { notebook, cell, above } = text;
      const mine = notebooks.source({ notebook, cell_id: cell.id });
      const settle = (): void => unsaved.settle(text);
      return { notebook, cell: cell.id, mine, theirs: cell, above, settle };
    });
  return [...own, ...shared.filter(({ mine, theirs }) => mine !== theirs.source)];
}

function Card({ conflict, others }: { conflict: IConflict; others: number }): React.JSX.Element {
  const { trans } = useServices();
  const { notebook, cell, theirs } = conflict;
  return (
    <Decision
      label={trans.__('Changed here and in the file')}
      cell={{ notebook, cell_id: cell }}
      type={theirs?.cell_type}
      question={name => question(conflict, name, trans)}
      reason={trans.__('The file was changed elsewhere. Your version was kept.')}
      text={theirs?.source ?? ''}
      others={others}
      choices={useChoices(conflict)}
    />
  );
}

/** The cell's content is looked up when the user chooses: they may have typed in it. */
function useChoices({ notebook, cell, theirs, above, settle }: IConflict): readonly Choice[] {
  const { notebooks, trans } = useServices();
  const ref = { notebook, cell_id: cell };
  const choice = (words: string, act?: () => void): Choice => [
    words,
    () => {
      act?.();
      settle();
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
      choice(trans.__('Restore'), () => notebooks.restore(notebook, theirs, above))
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
    ? trans.__('A cell that you deleted was changed in the file. Restore it?')
    : trans.__('%1 was changed here and in the file. Which one?', name);
}
