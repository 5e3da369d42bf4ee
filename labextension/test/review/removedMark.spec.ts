import { nullTranslator } from '@jupyterlab/translation';
import type { Cell } from '@jupyterlab/cells';
import type { IMarkServices } from '../../src/review/marks/changeMark';
import { RemovedMark } from '../../src/review/marks/removedMark';
import type { IPendingCell } from '../../src/review/pending';

const pending = { base: 'b = 2', conflict: null } as unknown as IPendingCell;

/** An unfolded mark of a deleted cell, at another cell. */
function open(): { mark: RemovedMark; cell: HTMLElement; text: () => Element } {
  const mark = new RemovedMark({
    actions: { isRunning: () => false },
    languages: { findByMIME: () => null, highlight: () => Promise.resolve() },
    trans: nullTranslator.load('')
  } as unknown as IMarkServices);
  const cell = document.createElement('div');
  document.body.append(cell);
  mark.show(pending, 'text/x-python');
  mark.place({ node: cell } as unknown as Cell, 'below');
  cell.querySelector('button')!.click();
  return { mark, cell, text: () => cell.querySelector('pre')! };
}

describe('The mark of a deleted cell', () => {
  it('keeps its focus and selection when nothing of it has changed', () => {
    const { mark, cell, text } = open();
    const [, undo] = cell.querySelectorAll('button');
    undo.focus();
    const before = text();
    mark.show({ ...pending }, 'text/x-python');
    expect(document.activeElement).toBe(undo);
    expect(text()).toBe(before);
  });

  it('shows what has changed', () => {
    const { mark, cell, text } = open();
    mark.show({ ...pending, base: 'b = 3' }, 'text/x-python');
    expect(text().textContent).toBe('b = 3');
    expect(cell.querySelector('code')!.textContent).toBe('b = 3');
  });
});
