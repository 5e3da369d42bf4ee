import { asJupyterMarkdown } from '../../src/components/modelMarkdown';

const DOLLAR = '<span>&#36;</span>';

describe('The Markdown of a model', () => {
  it.each([
    ['formulas in brackets', 'so \\(a+b\\) and \\( c \\).', 'so $a+b$ and $c$.'],
    ['formulas in a list', '1. **So**\n\n    the \\(x\\)', '1. **So**\n\n    the $x$'],
    ['displayed formulas in brackets', 'so\n\\[\na\n\\]\nand', 'so\n$$\na\n$$\nand'],
    ['displayed formulas on one line', '\\[ a \\].', '$$ a $$.'],
    [
      'displayed formulas in a list',
      '1. So:\n\n    \\[\n    a\n    \\]',
      '1. So:\n\n    $$\n    a\n    $$'
    ],
    ['displayed formulas in a quotation', '> \\[ a \\]', '> $$ a $$'],
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
    ['formulas', '$x$, $ x $, $a\n+ b$, $\\$5 + x$, $x $, $y$2, $$\nx_1\n$$'],
    ['environments', '\\begin{align}\na &= \\$5 \\\\\n\\end{align}'],
    ["JupyterLab's own brackets", '\\\\(a\\\\)'],
    ['escaped brackets', '\\[1\\] is \\[not\\] a link, f\\(x'],
    ['code', '`$5` and ``a ` $b`` and `\\(x\\)`'],
    ['fenced code', '```bash\necho $A $B\n\\(x\\)\n```'],
    ['fenced code that grows', '- a\n  ```bash\n  echo $AB $BC'],
    ['code in a list item', '- ```bash\n  echo $AB\n\n  echo $BC\n  ```'],
    ['code with what looks like an end', '```\n```python\n$AB $BC\n```'],
    ['code over lines', 'the `a\n$AB $BC` is'],
    ['indented code', 'so\n\n    echo $AB $BC\n    $5'],
    ['addresses', '[a](http://b/$5 "$6") ![$5 $6](x) http://b/$5 <a href="$5">e</a>\n\n[1]: /$5']
  ])('keeps %s', (_, markdown) => {
    expect(asJupyterMarkdown(markdown)).toBe(markdown);
  });

  it('goes on behind fenced code', () => {
    expect(asJupyterMarkdown('```\n$a\n```\n$5')).toBe(`\`\`\`\n$a\n\`\`\`\n${DOLLAR}5`);
  });

  it('reads lines that end as on Windows', () => {
    expect(asJupyterMarkdown('```\r\n$5\r\n\r\n$6\r\n```')).toBe('```\n$5\n\n$6\n```');
  });

  it.each([
    '\\(',
    '$',
    '`a',
    '<a',
    '\\[',
    '$a',
    '``` ',
    '\n\\[',
    '$$',
    '](',
    '\\',
    '> ',
    '$ ',
    '`x``',
    '1',
    '\\[\n',
    '\\begin{'
  ])('is read in time that grows with its length: %j', piece => {
    const start = performance.now();
    asJupyterMarkdown(piece.repeat(100_000 / piece.length));
    expect(performance.now() - start).toBeLessThan(2000);
  });
});
