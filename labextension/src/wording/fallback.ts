import type { TranslationBundle } from '@jupyterlab/translation';
import type { INotice } from '../api/protocol';
import { modelName } from './callDescriptions';

/** "Sonnet 5.5 is overloaded, so Opus 5.5 answers.", with what a model said of its refusal. */
export function fallbackNotice(notice: INotice, trans: TranslationBundle): string {
  const { model, instead_of, reason, explanation, text } = notice;
  if (!model || !instead_of) {
    return text;
  }
  const [first, second] = [modelName(instead_of), modelName(model)];
  const said =
    reason === 'refusal'
      ? trans.__('%1 refused to answer, so %2 answers.', first, second)
      : trans.__('%1 is overloaded, so %2 answers.', first, second);
  return explanation ? `${said} ${explanation}` : said;
}
