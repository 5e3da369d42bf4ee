import * as React from 'react';
import { withUnsaved } from '../review/unsavedTexts';
import type { IUnsavedText, IWhole } from '../review/unsavedTexts';
import { Decision } from './Decision';
import type { Choice } from './Decision';
import { useAssistant, useServices, useUnsavedTexts } from './services';

/** The first text that could not be saved, with the possible choices. */
export function UnsavedTexts(): React.JSX.Element | null {
  const { view } = useAssistant();
  const { notebooks } = useServices();
  const missing = useUnsavedTexts().filter(text => {
    const now = notebooks.source(refTo(text));
    return text.cause !== 'file' && (now === null || withUnsaved(text, now)?.text !== now);
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
  const whole = now === null ? null : withUnsaved(text, now);
  return (
    <Decision
      label={trans.__('Not saved')}
      cell={refTo(text)}
      type={text.cell.cell_type}
      question={name =>
        now === null
          ? trans.__('A cell was not saved. Restore it?')
          : trans.__('Recent typing in %1 was not saved. Restore it?', name)
      }
      reason={trans.__(
        'The server stopped, or another program wrote the file, before it was saved.'
      )}
      text={whole?.text ?? text.cell.source}
      others={others}
      choices={useChoices(text, now !== null, whole)}
    />
  );
}

/** The cell's content is looked up when the user chooses: they may have typed in it. */
function useChoices(text: IUnsavedText, isThere: boolean, whole: IWhole | null): readonly Choice[] {
  const { unsaved, notebooks, trans } = useServices();
  const ref = refTo(text);
  const { source } = text.cell;
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
  const both = (now: string): string => `${source}\n${now}`;
  const bringBack = choice(trans.__('Restore'), now => withUnsaved(text, now)?.text ?? both(now));
  const keepBoth = choice(trans.__('Keep both'), both);
  const leaveOut = choice(trans.__('Leave it out'));
  if (!isThere || whole?.isApart) {
    return [bringBack, leaveOut];
  }
  return whole
    ? [bringBack, keepBoth, leaveOut]
    : [keepBoth, choice(trans.__('Use the unsaved text'), () => source), leaveOut];
}

function refTo({ notebook, cell: { id } }: IUnsavedText): { notebook: string; cell_id: string } {
  return { notebook, cell_id: id };
}
