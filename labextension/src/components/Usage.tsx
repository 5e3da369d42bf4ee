import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { IUsage } from '../api/protocol';
import type { IUsageState } from '../chat/usage';
import { count, money, totalOf } from '../wording/tokenCount';
import {
  useAssistant,
  useConversation,
  useConversationUsage,
  useModels,
  useServices
} from './services';

/** The fill level of the model's context, and usage as a table that unfolds. */
export function Usage(): React.JSX.Element | null {
  const { assistant, trans, usage: conversationUsage } = useServices();
  const { models } = useModels();
  const { messages } = useConversation();
  const { shown } = useConversationUsage();
  const { model, usage, stepUsage } =
    messages.findLast(({ role, metadata }) => role === 'assistant' && metadata?.usage)?.metadata ??
    {};
  const total = usage ? totalOf(usage) : 0;
  if (!usage || !total) {
    return null;
  }
  const window = models?.windows?.[model ?? assistant.models.answering];
  return (
    <>
      {shown && <Details turn={usage} />}
      <div className="jp-Agent-usage">
        <button
          aria-expanded={shown}
          title={trans.__('Usage of the last answer and the conversation')}
          onClick={() => conversationUsage.toggle()}
        >
          {trans.__('Usage')}
        </button>
        {window && stepUsage && <Context used={totalOf(stepUsage)} window={window} />}
      </div>
    </>
  );
}

/** How much of the model's context window the conversation fills. */
function Context({ used, window }: { used: number; window: number }): React.JSX.Element {
  const { trans } = useServices();
  const share = Math.min(100, Math.round((100 * used) / window));
  const text = trans.__(
    '%1% of the context is used: %2 of %3 tokens',
    share,
    count(used, trans),
    count(window, trans)
  );
  return (
    <span className="jp-Agent-context" title={text}>
      {trans.__('context')}
      <span
        role="meter"
        aria-label={trans.__('Context')}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={share}
        aria-valuetext={text}
      >
        <span style={{ width: `${Math.max(share, 1)}%` }} />
      </span>
    </span>
  );
}

/** Usage of the turn and of the conversation, by kind of token. */
function Details({ turn }: { turn: IUsage }): React.JSX.Element {
  const { trans, usage } = useServices();
  const { conversation } = useAssistant();
  const state = useConversationUsage();
  useConversation();
  const rows: [string, (usage: IUsage) => string][] = [
    [trans.__('Input'), usage => count(usage.input_tokens, trans)],
    [trans.__('Read from cache'), usage => count(usage.cache_read_tokens, trans)],
    [trans.__('Written to cache'), usage => count(usage.cache_write_tokens ?? 0, trans)],
    [trans.__('Output'), usage => count(usage.output_tokens, trans)],
    [
      trans.__('Cost'),
      usage => (typeof usage.cost === 'number' ? money(usage.cost) : trans.__('unknown'))
    ]
  ];
  return (
    <section className="jp-Agent-account" aria-label={trans.__('Usage')}>
      <table>
        <thead>
          <tr>
            <th scope="col">{trans.__('Tokens')}</th>
            <th scope="col">{trans.__('Last answer')}</th>
            <th scope="col">{trans.__('Conversation')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, cellOf]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{cellOf(turn)}</td>
              <td>{state.usage ? cellOf(state.usage) : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div className="jp-Agent-buttons">
        <button
          className="jp-Agent-button"
          disabled={conversation.busy || state.summary === 'asked'}
          onClick={() => void usage.compact()}
        >
          {trans.__('Summarise conversation')}
        </button>
        <span role="status" className="jp-Agent-notice">
          {summaryOf(state, trans)}
        </span>
      </div>
    </section>
  );
}

function summaryOf({ summary, refusal }: IUsageState, trans: TranslationBundle): string {
  switch (summary) {
    case 'none':
      return trans.__('Makes room in the context. Your messages stay.');
    case 'asked':
      return trans.__('Summarising…');
    case 'made':
      return trans.__('Done. The model continues from a summary. Your messages stay.');
    case 'needless':
      return trans.__('Nothing to summarise yet.');
    case 'refused':
      return refusal;
  }
}
