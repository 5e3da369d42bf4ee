import { nullTranslator } from '@jupyterlab/translation';
import { fallbackNotice } from '../../src/wording/fallback';

const trans = nullTranslator.load('jupyter_agent');
const NOTICE = {
  kind: 'fallback',
  text: 'The server’s words.',
  model: 'anthropic:claude-opus-5-5',
  instead_of: 'anthropic:claude-sonnet-5-5'
};

describe('fallbackNotice', () => {
  it.each([
    [{ reason: 'overloaded' }, 'Sonnet 5.5 is overloaded, so Opus 5.5 answers.'],
    [
      { reason: 'refusal', explanation: 'It looks like an attack.' },
      'Sonnet 5.5 refused to answer, so Opus 5.5 answers. It looks like an attack.'
    ],
    [{ model: undefined }, 'The server’s words.']
  ])('says who answers and why: %j', (rest, words) => {
    expect(fallbackNotice({ ...NOTICE, ...rest }, trans)).toBe(words);
  });
});
