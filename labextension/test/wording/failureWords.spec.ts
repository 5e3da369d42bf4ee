import { nullTranslator } from '@jupyterlab/translation';
import { failureOf, refusal } from '../../src/api/failure';
import { failureWords, refusalWords } from '../../src/wording/failureWords';

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

describe('refusalWords', () => {
  const refused = async (status: number, body: object): Promise<string> => {
    const response = new Response(JSON.stringify(body), { status });
    return refusalWords(failureOf(await refusal(response)), trans);
  };

  it.each([
    [403, 'Forbidden'],
    [403, "'_xsrf' argument missing from POST"],
    [401, 'Unauthorized']
  ])('says how to log in again after a %i of Jupyter: %s', async (status, message) => {
    const words = await refused(status, { message, reason: null });
    expect(words).toContain(`(${message})`);
    expect(words).toContain('log in again in another tab');
  });

  it.each([
    [403, 'denied', 'A rule of the administrator denies this.'],
    [404, null, 'Not found.']
  ])('gives the message of another %i', async (status, reason, message) => {
    expect(await refused(status, { message, reason })).toBe(message);
  });
});
