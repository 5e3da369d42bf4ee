import type { IRenderMime } from '@jupyterlab/rendermime';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { Painter } from '../../src/components/Markdown';

const NEVER = new Promise<never>(() => undefined);
const FAILED = () => Promise.reject(new Error('Loading chunk 7076 failed.'));

function painted(
  source: string,
  markdownParser: IRenderMime.IMarkdownParser,
  latexTypesetter?: IRenderMime.ILatexTypesetter
): { host: HTMLElement; painter: Painter } {
  const initialFactories = standardRendererFactories;
  const rendermime = new RenderMimeRegistry({ initialFactories, markdownParser, latexTypesetter });
  const painter = new Painter(rendermime, [['Copy', () => undefined]], 'Table');
  const host = document.createElement('div');
  painter.attach(host);
  painter.paint(source);
  return { host, painter };
}

function paint(...given: Parameters<typeof painted>): HTMLElement {
  return painted(...given).host;
}

async function text(host: HTMLElement): Promise<string> {
  while (!host.textContent) {
    await new Promise(resolve => setTimeout(resolve, 10));
  }
  return host.textContent;
}

describe('A text in Markdown', () => {
  it.each([
    ['fails', { render: FAILED }],
    ['never comes', { render: () => NEVER }]
  ])('shows as it was written when the code for it %s to load', async (_, parser) => {
    expect(await text(paint('**It** costs $5', parser))).toBe('**It** costs $5');
  });

  it.each([
    ['fails', FAILED],
    ['never comes', () => NEVER]
  ])('shows without formulas when MathJax %s to load', async (_, typeset) => {
    const parser = { render: () => Promise.resolve('<p>so $x$</p><pre>x = 1</pre>') };
    expect(await text(paint('so $x$', parser, { typeset }))).toBe('so $x$Copyx = 1');
  });

  it('shows its formulas with the tools of its code when MathJax comes late', async () => {
    const parser = { render: () => Promise.resolve('<p>$x$</p><pre>x = 1</pre>') };
    let load: () => void = () => undefined;
    const loading = new Promise<void>(resolve => (load = resolve));
    const typeset = async (host: HTMLElement) => {
      const html = host.innerHTML;
      await loading;
      host.innerHTML = html.replace('$x$', 'X');
    };
    const host = paint('$x$', parser, { typeset });
    expect(await text(host)).toBe('$x$Copyx = 1');
    load();
    await new Promise(resolve => setTimeout(resolve));
    expect(host.textContent).toBe('XCopyx = 1');
  });

  it('has the tools of its code when its Markdown comes late and MathJax never', async () => {
    const late = new Promise<string>(resolve => setTimeout(resolve, 1100, '<pre>$x$</pre>'));
    const host = paint('`$x$`', { render: () => late }, { typeset: () => NEVER });
    expect(await text(host)).toBe('`$x$`');
    await late;
    await new Promise(resolve => setTimeout(resolve));
    expect(host.textContent).toBe('Copy$x$');
  });

  it('shows nothing if it is only a comment', async () => {
    const host = paint('<!-- a note -->', { render: () => Promise.resolve('') });
    while (!host.firstChild) {
      await new Promise(resolve => setTimeout(resolve, 10));
    }
    expect(host.textContent).toBe('');
  });

  it('stays while it grows and code for it is loaded', async () => {
    const html = ['<p>one</p>'];
    const parser = { render: () => (html.length ? Promise.resolve(html.pop()!) : NEVER) };
    const { host, painter } = painted('one', parser);
    expect(await text(host)).toBe('one');
    painter.paint('one two');
    await new Promise(resolve => setTimeout(resolve, 1200));
    expect(host.textContent).toBe('one');
  });

  it('has lists, quotes and tables in the direction of their script, or its own', async () => {
    const html =
      '<ul><li>א</li></ul><blockquote><ul><li>ב</li></ul></blockquote><table></table><p>ג</p>' +
      '<table dir="rtl"></table><div dir="rtl"><ol><li>pandas</li></ol></div>';
    const host = paint('א', { render: () => Promise.resolve(html) });
    await text(host);
    const directed = [...host.querySelectorAll('[dir=auto]')].map(({ tagName }) => tagName);
    expect(directed).toEqual(['UL', 'BLOCKQUOTE', 'TABLE']);
  });
});
