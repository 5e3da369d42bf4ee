import type { TranslationBundle } from '@jupyterlab/translation';
import type { INotice } from '../api/protocol';
import { modelName } from './callDescriptions';
import { failureWords } from './failureWords';

/** "Sonnet 5.5 is overloaded, so Opus 5.5 answers.", with the error, or the model's explanation of its refusal. */
export function fallbackNotice(notice: INotice, trans: TranslationBundle): string {
  const { model, instead_of, reason, explanation, text } = notice;
  if (!model || !instead_of) {
    return text;
  }
  const [first, second] = [modelName(instead_of), modelName(model)];
  switch (reason) {
    case 'refusal': {
      const said = trans.__('%1 refused to answer, so %2 answers.', first, second);
      return explanation ? `${said} ${explanation}` : said;
    }
    case 'overloaded':
      return trans.__('%1 is overloaded, so %2 answers.', first, second);
    default: {
      const said = trans.__('%1 cannot answer, so %2 does.', first, second);
      return `${said} ${failureWords(notice, instead_of, trans)}`.trimEnd();
    }
  }
}
