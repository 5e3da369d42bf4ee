import { nullTranslator } from '@jupyterlab/translation';
import { partialObject } from '../src/chat/partialJson';
import { splitBlocks } from '../src/components/markdownBlocks';
import { foldEmptyLines } from '../src/components/oddCharacterMarks';
import { countLines, diffLines, foldEmpty, parseDiff } from '../src/review/diff';

describe('partialObject', () => {
  const whole = { source: 'a = "\\n"\n\té\\', n: [1, { deep: 'x' }], ok: true, none: null };

  it('never shows anything but the beginning of what is meant', () => {
    for (const text of [JSON.stringify(whole), JSON.stringify(whole, null, 1)]) {
      for (let end = 1; end < text.length; end++) {
        const { source = '' } = (partialObject(text.slice(0, end)) ?? {}) as { source?: string };
        expect(whole.source.startsWith(source)).toBe(true);
      }
      expect(partialObject(text)).toEqual(whole);
    }
  });

  it('shows a string as it grows', () => {
    expect(partialObject('{"cell_id": "b2", "source": "x = \\"')).toEqual({
      cell_id: 'b2',
      source: 'x = "'
    });
    expect(partialObject('{"source": "x\\u00')).toEqual({ source: 'x' });
    expect(partialObject('{"source": "x\\\\')).toEqual({ source: 'x\\' });
  });

  it('leaves out what may be incomplete', () => {
    expect(partialObject('{"a": 1, "bc')).toEqual({ a: 1 });
    expect(partialObject('{"a": 1, "b": 12')).toEqual({ a: 1 });
    expect(partialObject('[1')).toBeUndefined();
    expect(partialObject('')).toBeUndefined();
  });
});

describe('splitBlocks', () => {
  it('ends a block at a blank line', () => {
    expect(splitBlocks('one\ntwo\n\nthree')).toEqual(['one\ntwo\n', 'three']);
  });

  it.each([
    ['fenced code', '```python\na\n\nb\n```'],
    ['code fenced inside of longer fences', '````\n```\n\n```\n````'],
    ['display mathematics', '$$\na\n\nb\n$$'],
    ['a list', '1. one\n\n2. two\n\n   more'],
    ['a quotation', '> one\n\n> two']
  ])('keeps %s together', (_, markdown) => {
    expect(splitBlocks(markdown)).toEqual([markdown]);
  });

  it('leaves the blocks before alone while the last one grows', () => {
    const text = 'one\n\n$x$\n\n- a\n- b\n\n```\nc\n```\n\nend';
    const final = splitBlocks(text);
    for (let end = 1; end < text.length; end++) {
      const blocks = splitBlocks(text.slice(0, end));
      expect(blocks.slice(0, -1).map(block => block.trim())).toEqual(
        final.slice(0, blocks.length - 1).map(block => block.trim())
      );
    }
  });
});

describe('diffs', () => {
  it('shows what changed with a little around it', () => {
    const before = ['a', 'b', 'c', 'd', 'e', 'f'].join('\n');
    expect(diffLines(before, before.replace('d', 'D'))).toEqual([
      { sign: ' ', text: 'b' },
      { sign: ' ', text: 'c' },
      { sign: '-', text: 'd' },
      { sign: '+', text: 'D' },
      { sign: ' ', text: 'e' },
      { sign: ' ', text: 'f' }
    ]);
  });

  it('takes the last line for a line like any other', () => {
    expect(countLines(diffLines('a', 'a\nb'))).toEqual({ added: 1, removed: 0 });
    expect(countLines(diffLines('', 'a\nb'))).toEqual({ added: 2, removed: 0 });
    expect(diffLines('a', 'a')).toEqual([]);
  });

  it('reads the diffs of the server, also those of lines that look like heads', () => {
    const lines = parseDiff('type: code -> markdown\n@@ -1 +1,2 @@\n---x\n+++y\n+z');
    expect(lines).toEqual([
      { sign: '…', text: 'type: code -> markdown' },
      { sign: '-', text: '--x' },
      { sign: '+', text: '++y' },
      { sign: '+', text: 'z' }
    ]);
  });

  it('shows what the server says of a change without lines', () => {
    expect(parseDiff('type: code -> raw\n')).toEqual([{ sign: '…', text: 'type: code -> raw' }]);
    expect(parseDiff('move after b2')).toEqual([{ sign: '…', text: 'move after b2' }]);
  });
});

describe('many empty lines in a row', () => {
  const empty = (count: number): string => '\n'.repeat(count);

  it('are one line of a diff, which counts them', () => {
    const lines = parseDiff(`@@\n+a\n${'+\n'.repeat(60)}+b\n-\n-\n-\n-c`);
    expect(foldEmpty(lines)).toEqual([
      { sign: '+', text: 'a' },
      { sign: '+', text: '', empty: 60 },
      { sign: '+', text: 'b' },
      { sign: '-', text: '' },
      { sign: '-', text: '' },
      { sign: '-', text: '' },
      { sign: '-', text: 'c' }
    ]);
  });

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
