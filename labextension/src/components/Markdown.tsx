import { Clipboard } from '@jupyterlab/apputils';
import { MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import * as React from 'react';
import { splitBlocks } from './markdownBlocks';
import { asJupyterMarkdown } from './modelMarkdown';
import { useServices } from './services';

const MARKDOWN = 'text/markdown';
const CODE_TOOLS = 'jp-Agent-codeTools';
const WIDE = 'jp-Agent-wide';
/** Blocks with marks or columns on a side. */
const DIRECTED = 'ul, ol, blockquote, table';

/** Markdown with mathematics, which may still be growing: only its last block is rendered again. */
export const Markdown = React.memo(function Markdown({ text }: { text: string }) {
  return (
    <div className="jp-Agent-markdown">
      {splitBlocks(text).map((block, index) => (
        <Block key={index} source={block} />
      ))}
    </div>
  );
});

const Block = React.memo(function Block({ source }: { source: string }) {
  const { notebooks, rendermime, trans } = useServices();
  const [painter] = React.useState(
    () =>
      new Painter(
        rendermime,
        [
          [trans.__('Copy'), code => Clipboard.copyToSystem(code)],
          [trans.__('Insert as cell'), code => void notebooks.insert(code)]
        ],
        trans.__('Table')
      )
  );
  React.useLayoutEffect(() => painter.paint(source), [painter, source]);
  return <div ref={painter.attach} />;
});

/** A button above a piece of code. */
type CodeTool = readonly [label: string, act: (code: string) => void];

/** The longest pause between two renderings of a growing text. */
const LONGEST_PAUSE_MS = 100;
/** How long a text waits for the code that renders it, which JupyterLab loads when it is first needed. */
const RENDERING_PATIENCE_MS = 1000;

/**
 * Renders off-screen and then swaps, so that a growing text never shows raw mathematics or a gap. Between two
 * renderings it pauses for twice their duration: a long paragraph with mathematics is rendered from its start each
 * time. A text that cannot be rendered, or not soon, shows as it was written until it can: a page that was open while
 * JupyterLab was updated finds neither the code for Markdown nor MathJax, and JupyterLab's promise of them never ends.
 */
export class Painter {
  constructor(
    private readonly _rendermime: IRenderMimeRegistry,
    private readonly _tools: readonly CodeTool[],
    private readonly _tableName: string
  ) {}

  readonly attach = (host: HTMLElement | null): void => {
    this._host = host;
  };

  /** Show this text next; of the texts that arrive during a rendering only the last is used. */
  paint(source: string): void {
    this._next = source;
    if (!this._painting) {
      this._painting = true;
      void this._paint().finally(() => (this._painting = false));
    }
  }

  private async _paint(): Promise<void> {
    let shown: string | null = null;
    while (this._host && this._next !== shown) {
      shown = this._next;
      const start = performance.now();
      const old = this._renderer;
      this._renderer = this._rendermime.createRenderer(MARKDOWN);
      const { node } = this._renderer;
      const rendering = this._render(this._renderer, shown);
      await Promise.race([rendering, sleep(RENDERING_PATIENCE_MS)]);
      if (!node.firstChild) {
        node.append(asWritten(shown));
      }
      this._addTools(node);
      this._host?.replaceChildren(node);
      old?.dispose();
      void rendering.then(() => this._addTools(node)); // what comes late replaces the nodes that have them
      await sleep(Math.min(2 * (performance.now() - start), LONGEST_PAUSE_MS));
    }
  }

  private async _render(renderer: IRenderMime.IRenderer, source: string): Promise<void> {
    try {
      await renderer.renderModel(
        new MimeModel({ data: { [MARKDOWN]: asJupyterMarkdown(source) } })
      );
      await this._rendermime.latexTypesetter?.typeset(renderer.node);
    } catch {
      // The console has what failed to load.
    }
  }

  /** Add those that are missing, and give lists, quotes and tables the direction of their script. */
  private _addTools(node: HTMLElement): void {
    node.querySelectorAll<HTMLElement>(DIRECTED).forEach(block => (block.dir = 'auto'));
    node.querySelectorAll('pre').forEach(pre => {
      if (pre.previousElementSibling?.className !== CODE_TOOLS) {
        pre.before(this._bar(pre));
      }
    });
    node.querySelectorAll('table').forEach(table => {
      if (table.parentElement?.className !== WIDE) {
        this._box(table);
      }
    });
  }

  private _bar(pre: HTMLElement): HTMLElement {
    const bar = document.createElement('div');
    bar.className = CODE_TOOLS;
    for (const [label, act] of this._tools) {
      const button = document.createElement('button');
      button.className = 'jp-Agent-link';
      button.textContent = label;
      button.onclick = () => act(pre.textContent.replace(/\n$/, ''));
      bar.append(button);
    }
    return bar;
  }

  /** Make a table that is wider than the panel scrollable, also by keys. */
  private _box(table: HTMLElement): void {
    const box = document.createElement('div');
    box.className = WIDE;
    box.tabIndex = 0;
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', this._tableName);
    table.replaceWith(box);
    box.append(table);
  }

  private _host: HTMLElement | null = null;
  private _renderer: IRenderMime.IRenderer | null = null;
  private _next = '';
  private _painting = false;
}

function asWritten(source: string): HTMLElement {
  const text = document.createElement('div');
  text.className = 'jp-Agent-asWritten';
  text.textContent = source;
  return text;
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, milliseconds));
}
