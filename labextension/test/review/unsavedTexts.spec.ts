import { withUnsaved } from '../../src/review/unsavedTexts';
import type { IUnsavedText } from '../../src/review/unsavedTexts';

/** A cell with the text `base` in its file, and `source` in the room. */
function text(base: string | null, source: string): IUnsavedText {
  const cell = { id: 'c', cell_type: 'code', source, metadata: {} };
  return { notebook: 'a.ipynb', key: 'k', cell, base, above: [] };
}

describe('withUnsaved', () => {
  it.each<[string, string | null, string, string, string | null, boolean]>([
    ['only what was not saved', 'a', 'a b', 'a', 'a b', true],
    ['is there already', 'a', 'a b', 'a b', 'a b', true],
    ['other lines were typed since', 'a', 'a\nb', 'a\nc', 'a\nb\nc', true],
    [
      'a word that was typed on',
      'x = wor',
      'x = word and te',
      'x = worxt',
      'x = word and text',
      false
    ],
    ['a cell that was empty', '', 'import num', 'py', 'import numpy', false],
    ['letters beyond the first plane', '𝒂', '𝒂 𝒃', '𝒂 𝒄', '𝒂 𝒃 𝒄', false],
    ['other text took its place', 'x = 1', 'x = 2', 'x = 3', null, false],
    ['a cell that is new in the file, too', null, 'a', 'b', null, false]
  ])('%s', (_, base, source, now, merged, isApart) => {
    const whole = withUnsaved(text(base, source), now);
    expect(whole).toEqual(merged === null ? null : { text: merged, isApart });
  });
});
