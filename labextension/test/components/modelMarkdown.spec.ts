import { asJupyterMarkdown } from '../../src/components/modelMarkdown';

const DOLLAR = '<span>&#36;</span>';

describe('The Markdown of a model', () => {
  it.each([
    ['formulas in brackets', 'so \\(a+b\\) and \\( c \\).', 'so $a+b$ and $c$.'],
    ['displayed formulas in brackets', 'so\n\\[\na\n\\]\nand', 'so\n$$\na\n$$\nand'],
    ['displayed formulas on one line', '\\[ a \\]', '$$ a $$'],
    ['amounts', 'from $5 to $10, US$3', `from ${DOLLAR}5 to ${DOLLAR}10, US${DOLLAR}3`],
    ['amounts with spaces', 'from $ 5 to $ 10', `from ${DOLLAR} 5 to ${DOLLAR} 10`],
    ['amounts without spaces', '$5–$10', `${DOLLAR}5–${DOLLAR}10`],
    ['escaped dollars', '\\$5 and \\$6', `${DOLLAR}5 and ${DOLLAR}6`],
    ['names of variables', '$HOME and $PATH', `${DOLLAR}HOME and ${DOLLAR}PATH`],
    ['an amount beside a formula', 'for $x$ pay $5', `for $x$ pay ${DOLLAR}5`]
  ])('may have %s', (_, markdown, shown) => {
    expect(asJupyterMarkdown(markdown)).toBe(shown);
  });

  it.each([
    ['formulas', '$x$, $ x $, $a\n+ b$, $\\$5 + x$, $$\nx_1\n$$'],
    ["JupyterLab's own brackets", '\\\\(a\\\\)'],
    ['escaped brackets', '\\[1\\] is \\[not\\] a link, f\\(x'],
    ['code', '`$5` and ``a ` $b`` and `\\(x\\)`'],
    ['fenced code', '```bash\necho $A $B\n\\(x\\)\n```'],
    ['fenced code that grows', '- a\n  ```bash\n  echo $A $B'],
    ['indented code', 'so\n\n    echo $A $B'],
    ['addresses', '[a](http://b/$c) http://b/$c <a href="$d">e</a>']
  ])('keeps %s', (_, markdown) => {
    expect(asJupyterMarkdown(markdown)).toBe(markdown);
  });

  it('goes on behind fenced code', () => {
    expect(asJupyterMarkdown('```\n$a\n```\n$5')).toBe(`\`\`\`\n$a\n\`\`\`\n${DOLLAR}5`);
  });

  it.each(['\\(', '$', '`a', '<a', '\\[', '$a', '``` ', '\n\\[', '$$', '](', '\\', '> '])(
    'is read in time that grows with its length: %j',
    piece => {
      const start = performance.now();
      asJupyterMarkdown(piece.repeat(100_000 / piece.length));
      expect(performance.now() - start).toBeLessThan(2000);
    }
  );
});
