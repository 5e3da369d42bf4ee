import { nullTranslator } from '@jupyterlab/translation';
import { failureWords } from '../../src/wording/failureWords';

const trans = nullTranslator.load('jupyter_agent');
const MODEL = 'anthropic:claude-sonnet-5-5';
const words = (reason: string, error = ''): string =>
  failureWords({ kind: 'failed', text: '', reason, error }, MODEL, trans);

describe('failureWords', () => {
  it.each([
    ['authentication', 'Anthropic rejected the API key.'],
    ['billing', 'Your Anthropic credit is used up.'],
    ['overloaded', 'Anthropic is overloaded.'],
    ['network', "Can't reach Anthropic. Check your network or proxy."],
    ['service', 'Anthropic had a server error.']
  ])('says of %s what happened, without the text of a library', (reason, said) => {
    expect(words(reason, '[Errno 111] Connect call failed (request req_1)')).toBe(said);
  });

  it('says when a limit ends, in the time of the reader', () => {
    const until = '2026-12-01T10:00:00+00:00';
    const notice = { kind: 'failed', text: '', reason: 'rate_limit', error: 'Wait.', until };
    const time = new Date(until).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
    expect(failureWords(notice, MODEL, trans)).toBe(`Rate limit reached. Try again after ${time}.`);
  });

  it('says when a limit of an earlier version ends', () => {
    const error = 'Anthropic limits the rate of requests. Ask again after 2026-12-01 10:00 UTC.';
    expect(words('rate_limit', error)).toBe(
      'Rate limit reached. Ask again after 2026-12-01 10:00 UTC.'
    );
  });

  it('gives what it has no words for as the server says it, without the id of the request', () => {
    expect(words('redirect', 'Set `base_url`. (request req_1)')).toBe('Set `base_url`.');
  });
});
