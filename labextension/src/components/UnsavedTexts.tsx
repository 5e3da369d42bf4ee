import * as React from 'react';
import { withUnsaved } from '../review/unsavedTexts';
import type { IUnsavedText } from '../review/unsavedTexts';
import { Decision } from './Decision';
import type { Choice } from './Decision';
import { useAssistant, useServices, useUnsavedTexts } from './services';

/** The first text that was not saved when the server ended, with what can be done about it. */
export function UnsavedTexts(): React.JSX.Element | null {
  const { view } = useAssistant();
  const { notebooks } = useServices();
  const missing = useUnsavedTexts().filter(text => {
    const now = notebooks.source(refTo(text));
    return now === null || withUnsaved(text, now) !== now;
  });
  const [first] = missing;
  if (!first || view !== 'conversation') {
    return null;
  }
  return <Card key={first.key} text={first} others={missing.length - 1} />;
}

function Card({ text, others }: { text: IUnsavedText; others: number }): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const now = notebooks.source(refTo(text));
  const merged = now === null ? text.cell.source : withUnsaved(text, now);
  return (
    <Decision
      label={trans.__('Not saved when the server stopped')}
      cell={refTo(text)}
      type={text.cell.cell_type}
      question={name =>
        text.base === null
          ? trans.__('A new cell was not saved. Bring it back?')
          : trans.__('What was typed last in %1 was not saved. Bring it back?', name)
      }
      reason={trans.__('The server stopped before it was in the file.')}
      text={merged ?? text.cell.source}
      others={others}
      choices={useChoices(text, merged !== null)}
    />
  );
}

/** What is in the cell is looked up when the user chooses: they may have typed meanwhile. */
function useChoices(text: IUnsavedText, isMerged: boolean): readonly Choice[] {
  const { unsaved, notebooks, trans } = useServices();
  const ref = refTo(text);
  const choice = (words: string, change?: (now: string) => string): Choice => [
    words,
    () => {
      const now = notebooks.source(ref);
      if (change && now === null) {
        notebooks.restore(text.notebook, text.cell, text.above);
      } else if (change && now !== null) {
        notebooks.rewrite(ref, change(now));
      }
      unsaved.settle(text);
    }
  ];
  const both = (now: string): string => withUnsaved(text, now) ?? `${text.cell.source}\n${now}`;
  return isMerged
    ? [choice(trans.__('Bring it back'), both), choice(trans.__('Leave it out'))]
    : [
        choice(trans.__('Keep both'), both),
        choice(trans.__('Use what was not saved'), () => text.cell.source),
        choice(trans.__('Leave it out'))
      ];
}

function refTo({ notebook, cell: { id } }: IUnsavedText): { notebook: string; cell_id: string } {
  return { notebook, cell_id: id };
}
