import { YNotebook } from '@jupyter/ydoc';
import * as Y from 'yjs';
import { rewrite } from '../../src/bridge/cellText';

/** The notebooks of two pages, with one cell. */
function copies(source: string) {
  const here = new YNotebook();
  const there = new YNotebook();
  here.addCell({ cell_type: 'code', source });
  Y.applyUpdate(there.ydoc, Y.encodeStateAsUpdate(here.ydoc));
  return { here, there };
}

describe('rewrite', () => {
  it.each([
    ['x = 1', 'x = 12'],
    ['# 😀', '# 😁'],
    ['a😀b', 'a😁b'],
    ['😀', '😀😀'],
    ['', 'a'],
    ['aXa', 'a']
  ])('makes %s %s, here and where others look', (before, after) => {
    const { here, there } = copies(before);
    rewrite(here.getCell(0), after);
    Y.applyUpdate(there.ydoc, Y.encodeStateAsUpdate(here.ydoc));
    for (const { cells } of [here, there]) {
      expect(cells.map(cell => cell.getSource())).toEqual([after]);
    }
  });

  it('leaves what others type beside it', () => {
    const { here, there } = copies('a b c');
    there.getCell(0).updateSource(5, 5, 'd');
    rewrite(here.getCell(0), 'a B c');
    Y.applyUpdate(here.ydoc, Y.encodeStateAsUpdate(there.ydoc));
    expect(here.getCell(0).getSource()).toBe('a B cd');
  });
});
