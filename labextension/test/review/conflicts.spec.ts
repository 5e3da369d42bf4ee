import { nullTranslator } from '@jupyterlab/translation';
import { cellsOf, describeConflict } from '../../src/review/conflicts';

const trans = nullTranslator.load('jupyter_agent');
const why = 'The server says why.';

function words(reason: string, position: number | null = 3): string {
  const conflict = { notebook: 'n.ipynb', cell_id: 'b2', reason, why };
  return describeConflict(conflict, position, trans);
}

describe('describeConflict', () => {
  it.each([
    ['changed', 'Cell 3 kept: you edited it after the assistant.'],
    ['deleted', 'Cell 3 kept: you had deleted it, and brought it back.'],
    ['typing', 'Cell 3 kept: you were typing in it.'],
    ['running', 'Cell 3 kept: it was running.'],
    ['locked', 'Cell 3 kept: it was locked after the assistant changed it.'],
    ['unreachable', 'Cell 3 kept: The server says why.']
  ])('says in words for the reason %s why a cell was kept', (reason, told) => {
    expect(words(reason)).toBe(told);
  });

  it('says that a cell stays deleted only while it does', () => {
    expect(words('deleted', null)).toBe(
      'A cell stays deleted: you deleted it after the assistant.'
    );
  });

  it('names the notebook if asked to, without hidden characters', () => {
    const conflict = { notebook: 'a\u202Eb.ipynb', cell_id: 'b2', reason: 'typing', why };
    expect(describeConflict(conflict, null, trans, true)).toBe(
      'A cell in a⟨U+202E⟩b.ipynb kept: you were typing in it.'
    );
  });
});

describe('cellsOf', () => {
  it.each([
    [[3], 'cell 3'],
    [[3, 5], 'cell 3, cell 5'],
    [[null], 'a cell'],
    [[null, null], '2 cells'],
    [[3, null], 'cell 3, another cell'],
    [[null, 3, null], 'cell 3, 2 other cells']
  ])('names the cells at %j', (positions, words) => {
    expect(cellsOf(positions, trans)).toBe(words);
  });
});
