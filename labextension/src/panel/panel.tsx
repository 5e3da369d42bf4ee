import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { PromiseDelegate } from '@lumino/coreutils';
import type { Message } from '@lumino/messaging';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { assistantIcon } from '../components/icons';
import type { IServices } from '../components/services';
import { DropTarget } from '../composer/dropTarget';
import { FocusReturn } from '../components/focusReturn';
import { mayFocusAfter } from '../components/lateFocus';

/** The side panel. Its content and renderers are loaded when it is first shown. */
export class AssistantPanel extends ReactWidget {
  constructor(
    private readonly _services: Omit<IServices, 'rendermime'>,
    private readonly _loadRenderers: () => Promise<IRenderMimeRegistry>
  ) {
    super();
    const { trans } = _services;
    this.id = 'jupyter-agent';
    this.addClass('jp-Agent');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Assistant'));
    this.title.icon = assistantIcon;
    this.title.caption = trans.__('Assistant');
    const { assistant, notebooks } = _services;
    const target = new DropTarget(this.node, notebooks, assistant.draft);
    const focus = new FocusReturn(this.node, () => void this.focusMessage());
    this.disposed.connect(() => {
      target.dispose();
      focus.dispose();
    });
  }

  /** Emitted when the panel becomes visible. */
  get shown(): ISignal<this, void> {
    return this._shown;
  }

  /** Focus the message field, unless the user moves elsewhere before it is ready. */
  async focusMessage(): Promise<void> {
    if (await mayFocusAfter(this._ready())) {
      this.node.querySelector<HTMLElement>('.jp-Agent-composer textarea')?.focus();
    }
  }

  /** Bring the answer of a turn into view, from its start. */
  async showTurn(turnId: string): Promise<void> {
    await this.focusMessage();
    const answer = this.node.querySelector(`[data-turn='${CSS.escape(turnId)}']`);
    answer?.scrollIntoView({ block: 'start' });
  }

  protected override onActivateRequest(_: Message): void {
    void this.focusMessage();
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    if (this.isVisible) {
      this._onShown();
    }
  }

  protected override onAfterShow(_: Message): void {
    this._onShown();
  }

  protected override render(): React.JSX.Element | null {
    return this._hasFailed ? <NotLoaded trans={this._services.trans} /> : this._content;
  }

  private _onShown(): void {
    void this._load();
    this._shown.emit();
  }

  private async _ready(): Promise<void> {
    await this._load();
    await this._mounted.promise; // not renderPromise: it waits for an idle moment, which a busy page may never have
  }

  /** If its code cannot be loaded, as after an update of the server, the panel says so, and tries again when shown. */
  private async _load(): Promise<void> {
    if (!this._content) {
      try {
        const [{ Content }, rendermime] = await Promise.all([
          import('../components/Content'),
          this._loadRenderers()
        ]);
        const services = { ...this._services, rendermime };
        this._content ??= <Content services={services} onMounted={this._onMounted} />;
        this._hasFailed = false;
      } catch {
        this._hasFailed = true; // the console has what failed to load
      }
      this.update();
    }
  }

  /** Undone when the panel is moved to another side. */
  private readonly _onMounted = (): (() => void) => {
    this._mounted.resolve();
    return () => {
      this._mounted = new PromiseDelegate();
    };
  };

  private readonly _shown = new Signal<this, void>(this);
  private _mounted = new PromiseDelegate<void>();
  private _content: React.JSX.Element | null = null;
  private _hasFailed = false;
}

function NotLoaded({ trans }: { trans: TranslationBundle }) {
  return (
    <div role="alert" className="jp-Agent-failure jp-Agent-notLoaded">
      {trans.__('The assistant could not be loaded. If it was updated, reload this page.')}
      <div className="jp-Agent-buttons">
        <button className="jp-Agent-button" onClick={() => window.location.reload()}>
          {trans.__('Reload')}
        </button>
      </div>
    </div>
  );
}
