import { Clipboard } from '@jupyterlab/apputils';
import { MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import * as React from 'react';
import { splitBlocks } from './markdownBlocks';
import { asJupyterMarkdown } from './modelMarkdown';
import { useServices } from './services';

const MARKDOWN = 'text/markdown';

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
  const { assistant, notebooks, rendermime, trans } = useServices();
  const insert = (code: string): void => {
    if (!notebooks.insert(code)) {
      assistant.draft.refuse(trans.__('Open a notebook first.'));
    }
  };
  const [painter] = React.useState(
    () =>
      new Painter(
        rendermime,
        [
          [trans.__('Copy'), code => Clipboard.copyToSystem(code)],
          [trans.__('Insert as cell'), insert]
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
/** How long a new text, and one that grows, waits for code that renders it, which JupyterLab loads when it needs it. */
const PATIENCE_MS = { new: 1000, growing: 5000 };

/**
 * Renders off-screen and then swaps, so that a growing text never shows raw mathematics or a gap. Between two
 * renderings it pauses for twice their duration: a long paragraph with mathematics is rendered from its start each
 * time. A text that cannot be rendered, or not soon, shows as it was written until it can, and formulas as their
 * source: a page that was open while JupyterLab was updated finds neither the code for Markdown nor MathJax, and
 * JupyterLab's promise of them never ends.
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
      const former = this._renderer;
      const renderer = this._rendermime.createRenderer(MARKDOWN);
      this._renderer = renderer;
      const patience = sleep(this._visible ? PATIENCE_MS.growing : PATIENCE_MS.new);
      await Promise.race([this._render(renderer, shown, patience), patience]);
      if (this._visible !== renderer) {
        this._host?.replaceChildren(asWritten(shown));
        this._visible = null;
      }
      former?.dispose();
      await sleep(Math.min(2 * (performance.now() - start), LONGEST_PAUSE_MS));
    }
  }

  /** Show the text once it is rendered, and again if its formulas come only after `patience`. */
  private async _render(
    renderer: IRenderMime.IRenderer,
    source: string,
    patience: Promise<void>
  ): Promise<void> {
    const { node } = renderer;
    const model = new MimeModel({ data: { [MARKDOWN]: asJupyterMarkdown(source) } });
    try {
      await renderer.renderModel(model);
    } catch {
      return; // the console has what failed to load
    }
    const formulas = this._typeset(node);
    if ((await Promise.race([formulas, patience])) === undefined) {
      this._show(renderer, node.cloneNode(true) as HTMLElement); // what comes late replaces the nodes within
    }
    await formulas;
    this._show(renderer, node);
  }

  /** True when it is done; also if MathJax cannot be loaded. */
  private async _typeset(node: HTMLElement): Promise<true> {
    try {
      await this._rendermime.latexTypesetter?.typeset(node);
    } catch {
      // The console has what failed to load.
    }
    return true;
  }

  private _show(renderer: IRenderMime.IRenderer, content: HTMLElement): void {
    if (this._host && this._renderer === renderer) {
      direct(content);
      content.querySelectorAll('pre').forEach(pre => pre.before(this._bar(pre)));
      content.querySelectorAll('table').forEach(table => this._box(table));
      this._host.replaceChildren(content);
      this._visible = renderer;
    }
  }

  private _bar(pre: HTMLElement): HTMLElement {
    const bar = document.createElement('div');
    bar.className = 'jp-Agent-codeTools';
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
    box.className = 'jp-Agent-wide';
    box.tabIndex = 0;
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', this._tableName);
    table.replaceWith(box);
    box.append(table);
  }

  private _host: HTMLElement | null = null;
  private _renderer: IRenderMime.IRenderer | null = null;
  /** The renderer whose content is shown. */
  private _visible: IRenderMime.IRenderer | null = null;
  private _next = '';
  private _painting = false;
}

/** Give lists, quotes and tables the direction of their script, unless the text gives one. */
function direct(content: HTMLElement): void {
  [...content.querySelectorAll<HTMLElement>('ul, ol, blockquote, table')]
    .filter(block => !block.closest('[dir]') && !block.parentElement?.closest('blockquote'))
    .forEach(block => (block.dir = 'auto'));
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
