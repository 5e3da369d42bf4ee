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
    [
      { reason: 'rate_limit', error: 'lab limits the rate of requests.' },
      'Sonnet 5.5 cannot answer, so Opus 5.5 does. Rate limit reached.'
    ],
    [
      { reason: 'silent', error: 'lab said nothing.' },
      'Sonnet 5.5 cannot answer, so Opus 5.5 does. lab said nothing.'
    ],
    [{ model: undefined }, 'The server’s words.']
  ])('says who answers and why: %j', (rest, words) => {
    expect(fallbackNotice({ ...NOTICE, ...rest }, trans)).toBe(words);
  });
});
