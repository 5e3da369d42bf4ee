import { nullTranslator } from '@jupyterlab/translation';
import { foldEmptyLines } from '../../src/components/oddCharacterMarks';

describe('many empty lines in a row', () => {
  const empty = (count: number): string => '\n'.repeat(count);

  it.each([
    [['a\n', empty(60), 'b'], ['60 empty lines']],
    [[`${empty(60)}a`], ['60 empty lines']],
    [[`a\n${empty(4)}b\n${' \t\n'.repeat(5)}c`], ['4 empty lines', '5 empty lines']],
    [['a', `${empty(5)}b`], ['4 empty lines']],
    [['a', `${empty(4)}b`], []],
    [[`a\n${'\u200b\n'.repeat(9)}b`], []],
    [[`a\n${' '.repeat(100000)}b`], []]
  ])('are one line of code, and the text stays what it is: %j', (tokens, labels) => {
    const code = document.createElement('code');
    for (const token of tokens) {
      const part = document.createElement('span');
      part.textContent = token;
      code.append(part);
    }
    foldEmptyLines(code, nullTranslator.load('jupyter_agent'));
    expect(code.textContent).toBe(tokens.join(''));
    const marks = [...code.querySelectorAll('.jp-Agent-empty')];
    expect(marks.map(mark => mark.getAttribute('aria-label'))).toEqual(labels);
  });
});
