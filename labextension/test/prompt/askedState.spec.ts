import type { AgentMessage } from '../../src/api/protocol';
import { askedState, oneLine } from '../../src/prompt/askedState';

const EMPTY = { waiting: [], held: false };
const question: AgentMessage = { id: 'q', role: 'user', parts: [{ type: 'text', text: 'Why?' }] };
const answer: AgentMessage = {
  id: 'a',
  role: 'assistant',
  parts: [{ type: 'text', text: 'As it\n  is.' }]
};
const change = { type: 'data-changes', data: {} } as unknown as AgentMessage['parts'][number];
const changing = { ...answer, parts: [change] };
const other = { ...question, id: 'other' };
const fault = { message: '', reason: 'network' };

describe('askedState', () => {
  it.each([
    ['working', [question], 'running', null],
    ['working', [question, answer], 'running', null],
    ['answered', [question, answer], 'done', null],
    ['changed', [question, changing], 'done', null],
    ['changed', [question, changing, other], 'running', null],
    ['refused', [question], 'failed', fault],
    ['failed', [question, answer], 'failed', { message: 'Too late', reason: 'turn' }],
    ['failed', [question, answer], 'failed', fault],
    ['stopped', [question, answer], 'stopped', null],
    ['gone', [other], 'running', null]
  ] as const)('is %s', (state, messages, progress, failure) => {
    expect(askedState('q', { failure, messages, progress }, EMPTY)).toBe(state);
  });

  it('is that of the queue as long as it waits there', () => {
    const waiting = [{ id: 'q', text: 'Why?' }];
    const moment = { failure: null, messages: [other], progress: 'running' } as const;
    expect(askedState('q', moment, { waiting, held: false })).toBe('queued');
    expect(askedState('q', { ...moment, progress: 'failed' }, { waiting, held: true })).toBe(
      'held'
    );
  });
});

describe('oneLine', () => {
  it('has the last passage of an answer without line breaks, cut', () => {
    expect(oneLine(answer)).toBe('As it is.');
    expect(oneLine(answer, 5)).toBe('As it');
    expect(oneLine(undefined)).toBe('');
  });
});
