import { splitBlocks } from '../../src/components/markdownBlocks';

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
