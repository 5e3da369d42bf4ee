import type { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { Assistant } from '../chat/assistant';
import type { Conversation } from '../chat/conversation';
import { modelName } from '../wording/callDescriptions';
import { count, totalOf } from '../wording/tokenCount';

/** The status bar item: model, activity and usage. A click opens the panel. */
export class StatusItem extends ReactWidget {
  constructor(
    private readonly _assistant: Assistant,
    private readonly _open: () => void,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Agent-status');
    _assistant.happened.connect(this._schedule, this);
    _assistant.models.changed.connect(this._schedule, this);
    this._schedule();
  }

  /** Its entry for the status bar. */
  get placed(): IStatusBar.IItem {
    return { item: this, align: 'right', rank: 200, isActive: () => true };
  }

  protected override render(): React.JSX.Element | null {
    const { models, state } = this._assistant;
    if (!models.answering) {
      return null;
    }
    const { messages } = state.conversation.state;
    const usage = messages.findLast(({ metadata }) => metadata?.usage)?.metadata?.usage;
    const model = modelName(models.answering);
    const took = usage ? this._trans.__('%1 tokens', count(totalOf(usage), this._trans)) : '';
    const text = [model, this._activity(state.conversation), took].filter(Boolean).join(' · ');
    return (
      <button title={this._trans.__('Assistant: %1', text)} onClick={this._open}>
        {text}
      </button>
    );
  }

  private _activity(conversation: Conversation): string {
    if (conversation.approvals.length) {
      return this._trans.__('needs approval');
    }
    return conversation.busy ? this._trans.__('working') : this._trans.__('ready');
  }

  /** At most once per frame, since an answer changes with each word. */
  private _schedule(): void {
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      this.update();
    });
  }

  private _frame = 0;
}
