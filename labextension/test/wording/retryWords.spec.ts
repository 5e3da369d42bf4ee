import { nullTranslator } from '@jupyterlab/translation';
import { retryWords, secondsLeft } from '../../src/wording/retryWords';

const trans = nullTranslator.load('jupyter_agent');
const NOW = new Date('2026-11-23T09:00:00Z');
const notice = (more: object): Parameters<typeof secondsLeft>[0] => ({
  kind: 'retrying',
  text: '',
  ...more
});

describe('secondsLeft', () => {
  beforeEach(() => jest.useFakeTimers({ now: NOW }));
  afterEach(() => jest.useRealTimers());

  it.each([
    [{ seconds: 8 }, 3, 5],
    [{ seconds: 7.4 }, 0, 8],
    [{ seconds: 8 }, 20, 0],
    [{ seconds: 600, until: '2026-11-23T09:10:00Z' }, 0, 600],
    [{ seconds: 600, until: '2026-11-23T09:02:00Z' }, 0, 120], // this page was loaded later
    [{ seconds: 600, until: '2026-11-23T11:10:00Z' }, 10, 590], // the clock of the server is ahead
    [{ seconds: 600, until: '2026-11-23T08:00:00Z' }, 0, 0],
    [{}, 0, 0]
  ])('of %j after %i s is %i', (more, elapsed, left) => {
    expect(secondsLeft(notice(more), elapsed)).toBe(left);
  });
});

describe('retryWords', () => {
  it.each([
    [{ reason: 'rate_limit' }, 8, 'Rate limit reached. Retrying in 8 s'],
    [{ reason: 'overloaded' }, 0, 'The model service is overloaded. Retrying…'],
    [{ reason: 'dns' }, 1, "Can't reach the model service. Retrying in 1 s"],
    [{ reason: 'service' }, 61, 'The model service failed. Retrying in 1 min 1 s']
  ])('of %j with %i s left', (more, left, words) => {
    expect(retryWords(notice(more), left, trans)).toBe(words);
  });

  it('names the time where the wait is long', () => {
    const until = new Date(2026, 10, 23, 14, 5).toISOString();
    const words = retryWords(notice({ reason: 'rate_limit', until }), 598, trans);
    expect(words).toMatch(/^Rate limit reached. Retrying at (14:05|02:05 PM), in 9 min 58 s$/);
  });
});
