import { QuestionEdits } from '../../src/composer/questionEdits';

describe('Earlier questions that are being edited', () => {
  beforeEach(() => sessionStorage.clear());

  it('survive a reload until they are sent or cancelled', () => {
    const edits = new QuestionEdits();
    edits.write('a', { text: 'One', undo: true });
    edits.write('b', { text: 'Two', undo: true });
    edits.write('a', { text: 'One more', undo: false });
    expect(new QuestionEdits().state).toEqual({
      a: { text: 'One more', undo: false },
      b: { text: 'Two', undo: true }
    });
    edits.end('a');
    expect(Object.keys(new QuestionEdits().state)).toEqual(['b']);
    edits.end('b');
    expect(sessionStorage).toHaveLength(0);
  });
});
