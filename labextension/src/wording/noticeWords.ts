import type { TranslationBundle } from '@jupyterlab/translation';
import type { INotice, Share } from '../api/protocol';
import { modelName } from './callDescriptions';
import { fallbackNotice } from './fallback';

/** The text of a notice from the server; the server's own sentence for unknown kinds or facts. */
export function noticeWords(notice: INotice, trans: TranslationBundle): string {
  const { kind, text } = notice;
  switch (kind) {
    case 'fallback':
      return fallbackNotice(notice, trans);
    case 'step-limit':
      return trans.__('The step limit is reached. This is the last answer.');
    case 'budget':
      return notice.limit === 'month'
        ? trans.__(
            'Your budget for this month is used up; a new month starts on the 1st (UTC). This is the last answer.'
          )
        : trans.__('The budget for this answer is used up. This is the last one.');
    case 'compacted':
      return notice.how ? compactedWords(notice.how, trans) : text;
    case 'no-answer':
      return trans.__('The model ended without an answer.');
    case 'cut-off':
      return trans.__('The answer became too long and was cut off. Ask to continue.');
    case 'text-call':
      return trans.__(
        'The model wrote a call of a tool as text, which does nothing. Enable calls of tools in its service, or choose another model.'
      );
    case 'refusal':
      return declinedWords(notice, trans);
    case 'provider':
      return sentWords(notice, trans);
    case 'withheld':
      return notice.turns ? withheldWords(notice.turns, trans) : text;
    case 'notebook-changed':
      return notice.notebook
        ? trans.__('%1 was changed during the answer.', notice.notebook)
        : text;
    case 'instructions-left-out':
      return notice.sources?.length
        ? trans.__('Not followed until you trust it: %1', notice.sources.join(', '))
        : text;
    case 'window':
      return windowWords(notice, trans);
    default:
      return text;
  }
}

function compactedWords(how: 'shortened' | 'summarised', trans: TranslationBundle): string {
  return how === 'summarised'
    ? trans.__('The conversation was too long for the model and was summarised.')
    : trans.__('The conversation was too long for the model. Older results were shortened.');
}

function declinedWords({ explanation }: INotice, trans: TranslationBundle): string {
  const refused = trans.__('The model refused to answer. Rephrase it or choose another model.');
  return explanation ? `${refused} ${explanation}` : refused;
}

function sentWords({ host, model, share, text }: INotice, trans: TranslationBundle): string {
  if (!host || !model || !share) {
    return text;
  }
  const sent: Record<Share, string> = {
    all: trans.__(
      'Your messages and the cells, outputs and files it reads are sent to %1 (%2).',
      host,
      model
    ),
    'no-outputs': trans.__(
      'Your messages and the cells and files it reads, without outputs or variables, are sent to %1 (%2).',
      host,
      model
    ),
    'code-only': trans.__(
      'Your messages and the code of the cells it reads are sent to %1 (%2).',
      host,
      model
    )
  };
  return `${sent[share]} ${trans.__('Cells tagged agent-hidden are never sent.')}`;
}

function withheldWords(turns: number, trans: TranslationBundle): string {
  return trans._n(
    'An earlier answer is not sent to the model: it shared more than you share now.',
    '%1 earlier answers are not sent to the model: they shared more than you share now.',
    turns
  );
}

function windowWords(notice: INotice, trans: TranslationBundle): string {
  const { model, needed, text, window } = notice;
  if (!model || !needed || !window) {
    return text;
  }
  const has = trans.__(
    '%1 reads %2 tokens at once, and this question has about %3: it may not see all of it.',
    modelName(model),
    window.toLocaleString(),
    needed.toLocaleString()
  );
  const fix = model.startsWith('ollama:')
    ? trans.__('Choose another model, or start Ollama with OLLAMA_CONTEXT_LENGTH=65536.')
    : trans.__('Choose a model with a larger window.');
  return `${has} ${fix}`;
}
