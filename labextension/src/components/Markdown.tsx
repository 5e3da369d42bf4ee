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
  React.useLayoutEffect(() => painter.paint(asJupyterMarkdown(source)), [painter, source]);
  return <div ref={painter.attach} />;
});

/** A button above a piece of code. */
type CodeTool = readonly [label: string, act: (code: string) => void];

/** The longest pause between two renderings of a growing text. */
const LONGEST_PAUSE_MS = 100;

/**
 * Renders off-screen and then swaps, so that a growing text never shows raw mathematics or a gap. Between two
 * renderings it pauses for twice their duration: a long paragraph with mathematics is rendered from its start each
 * time.
 */
class Painter {
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
      await this._renderer.renderModel(new MimeModel({ data: { [MARKDOWN]: shown } }));
      await this._rendermime.latexTypesetter?.typeset(this._renderer.node);
      this._renderer.node.querySelectorAll('pre').forEach(pre => pre.before(this._bar(pre)));
      this._renderer.node.querySelectorAll('table').forEach(table => this._box(table));
      this._host?.replaceChildren(this._renderer.node);
      old?.dispose();
      const pause = Math.min(2 * (performance.now() - start), LONGEST_PAUSE_MS);
      await new Promise(resolve => setTimeout(resolve, pause));
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
  private _next = '';
  private _painting = false;
}
