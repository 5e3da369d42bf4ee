import type { AgentPart, CallPart } from '../../src/api/protocol';
import { abandonedParts, foldWork, sectionsOf } from '../../src/chat/answerSections';

const text = (words: string): AgentPart => ({ type: 'text', text: words, state: 'done' });
const thought: AgentPart = { type: 'reasoning', id: 'r', text: 'Hm.', state: 'done' };
const step: AgentPart = { type: 'step-start' };
const call = (toolCallId: string): CallPart =>
  ({
    type: 'dynamic-tool',
    toolName: 'run_cell',
    toolCallId,
    state: 'output-available'
  }) as CallPart;
const notice = (kind: string): AgentPart => ({
  type: 'data-notice',
  data: { kind, text: 'told' }
});

const types = (parts: AgentPart[]): string[] =>
  sectionsOf(parts, ({ kind }) => kind !== 'approval').map(({ type }) => type);
const folded = (parts: AgentPart[]): string[] =>
  foldWork(sectionsOf(parts, ({ kind }) => kind !== 'approval')).map(section =>
    section.type === 'fold' ? `fold ${section.calls.length}` : section.type
  );

describe('sectionsOf', () => {
  it('puts all calls between two passages of text together, with the thoughts between them', () => {
    const parts = [thought, text('First'), call('1'), step, thought, call('2'), text('Then')];
    expect(types(parts)).toEqual(['thinking', 'text', 'work', 'text']);
    expect(types([...parts, call('3')])).toEqual(['thinking', 'text', 'work', 'text', 'work']);
  });

  it('is not divided by what does not show', () => {
    expect(types([call('1'), text(' \n'), notice('approval'), call('2')])).toEqual(['work']);
    expect(types([call('1'), notice('answered'), call('2')])).toEqual(['work', 'notice', 'work']);
  });
});

describe('foldWork', () => {
  it('makes one line of all work, with the remarks between, and leaves the answer', () => {
    const parts = [text('I look.'), call('1'), text('Now I run.'), call('2'), text('It is 7.')];
    expect(folded(parts)).toEqual(['text', 'fold 2', 'text']);
  });

  it('hides no passage that is more than a remark, and no word of a person', () => {
    const long = text('It fell in June. '.repeat(20));
    expect(folded([call('1'), long, call('2')])).toEqual(['fold 1', 'text', 'fold 1']);
    expect(folded([call('1'), notice('answered'), call('2')])).toEqual([
      'fold 1',
      'notice',
      'fold 1'
    ]);
  });
});

describe('abandonedParts', () => {
  it('are those of attempts that were repeated; the failure that ended the turn is none', () => {
    const [first, retry, failed] = [text('Half'), notice('retrying'), notice('failed')];
    expect([...abandonedParts([step, first, retry, text('Whole')], false)]).toEqual([first]);
    expect([...abandonedParts([step, first, retry, failed], false)]).toEqual([first, retry]);
  });
});
