import { withUnsaved } from '../../src/review/unsavedTexts';
import type { IUnsavedText } from '../../src/review/unsavedTexts';

/** A cell said `base` in its file, and `source` in the room. */
function text(base: string | null, source: string): IUnsavedText {
  const cell = { id: 'c', cell_type: 'code', source, metadata: {} };
  return { notebook: 'a.ipynb', key: 'k', cell, base, above: [] };
}

describe('withUnsaved', () => {
  it.each([
    ['only what was not saved', 'a', 'a b', 'a', 'a b'],
    ['is there already', 'a', 'a b', 'a b', 'a b'],
    ['other lines were typed since', 'a', 'a\nb', 'a\nc', 'a\nb\nc'],
    ['a word that was typed on', 'x = wor', 'x = word and te', 'x = worxt', 'x = word and text'],
    ['a cell that was empty', '', 'import num', 'py', 'import numpy'],
    ['letters beyond the first plane', '𝒂', '𝒂 𝒃', '𝒂 𝒄', '𝒂 𝒃 𝒄'],
    ['other text took its place', 'x = 1', 'x = 2', 'x = 3', null],
    ['a cell that is new in the file, too', null, 'a', 'b', null]
  ])('%s', (_, base, source, now, merged) => {
    expect(withUnsaved(text(base, source), now)).toBe(merged);
  });
});
