import { splitBlocks } from '../../src/components/markdownBlocks';

describe('splitBlocks', () => {
  it('ends a block at a blank line', () => {
    expect(splitBlocks('one\ntwo\n\nthree')).toEqual(['one\ntwo\n', 'three']);
  });

  it.each([
    ['fenced code', '```python\na\n\nb\n```'],
    ['code with what looks like an end', '```\n```python\na\n\nb\n```'],
    ['code in a list item', '- ```python\n  a\n\nb\n  ```'],
    ['code fenced inside of longer fences', '````\n```\n\n```\n````'],
    ['display mathematics', '$$\na\n\nb\n$$'],
    ['a list', '1. one\n\n2. two\n\n   more'],
    ['a quotation', '> one\n\n> two'],
    ['what unfolds', '<details><summary>More</summary>\n\none\n\ntwo\n\n</details>'],
    ['what unfolds and is still growing', 'one <details>\n\ntwo\n\nthree']
  ])('keeps %s together', (_, markdown) => {
    expect(splitBlocks(markdown)).toEqual([markdown]);
  });

  it('ends code in a list item', () => {
    expect(splitBlocks('- ```\n  a\n  ```\n\nend').at(-1)).toBe('end');
  });

  it('ends what unfolds', () => {
    expect(splitBlocks('<details>\n\n`<details>`\n\n</details>\n\nend').at(-1)).toBe('end');
    expect(splitBlocks('the tag `<details>`\n\nend').at(-1)).toBe('end');
  });

  it('gives each block the addresses that it refers to', () => {
    const [first, second, last] = splitBlocks('See [a][1].\n\nOr x[0].\n\n[1]: http://a.org "A"');
    expect(first).toBe('[1]: http://a.org "A"\n\nSee [a][1].\n');
    expect(second).toBe('Or x[0].\n');
    expect(last).toBe('[1]: http://a.org "A"');
  });

  it('reads labels as Markdown does: without case, the first address counts', () => {
    const [first] = splitBlocks('See [a][Docs].\n\n[docs]: http://a.org\n[docs]: http://b.org');
    expect(first).toBe('[docs]: http://a.org\n\nSee [a][Docs].\n');
  });

  it('takes neither code nor footnotes nor text for addresses', () => {
    expect(splitBlocks('A [NOTE].\n\n[NOTE]: loaded 5 rows')[0]).toBe('A [NOTE].\n');
    const [first] = splitBlocks('See [a].\n\n```\n[a]: http://a.org\n```');
    expect(first).toBe('See [a].\n');
    const [second] = splitBlocks('See[^1].\n\n[^1]: A note.');
    expect(second).toBe('See[^1].\n');
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
