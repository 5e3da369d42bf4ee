import { countLines, diffLines, foldEmpty, parseDiff } from '../../src/review/diff';

describe('diffs', () => {
  it('shows what changed with a little around it', () => {
    const before = ['a', 'b', 'c', 'd', 'e', 'f'].join('\n');
    expect(diffLines(before, before.replace('d', 'D'))).toEqual([
      { sign: ' ', text: 'b' },
      { sign: ' ', text: 'c' },
      { sign: '-', text: 'd' },
      { sign: '+', text: 'D' },
      { sign: ' ', text: 'e' },
      { sign: ' ', text: 'f' }
    ]);
  });

  it('takes the last line for a line like any other', () => {
    expect(countLines(diffLines('a', 'a\nb'))).toEqual({ added: 1, removed: 0 });
    expect(countLines(diffLines('', 'a\nb'))).toEqual({ added: 2, removed: 0 });
    expect(diffLines('a', 'a')).toEqual([]);
  });

  it('reads the diffs of the server, also those of lines that look like heads', () => {
    const lines = parseDiff('type: code -> markdown\n@@ -1 +1,2 @@\n---x\n+++y\n+z');
    expect(lines).toEqual([
      { sign: '…', text: 'type: code -> markdown' },
      { sign: '-', text: '--x' },
      { sign: '+', text: '++y' },
      { sign: '+', text: 'z' }
    ]);
  });

  it('shows what the server says of a change without lines', () => {
    expect(parseDiff('type: code -> raw\n')).toEqual([{ sign: '…', text: 'type: code -> raw' }]);
    expect(parseDiff('move after b2')).toEqual([{ sign: '…', text: 'move after b2' }]);
  });
});

describe('many empty lines in a row', () => {
  it('are one line of a diff, which counts them', () => {
    const lines = parseDiff(`@@\n+a\n${'+\n'.repeat(60)}+b\n-\n-\n-\n-c`);
    expect(foldEmpty(lines)).toEqual([
      { sign: '+', text: 'a' },
      { sign: '+', text: '', empty: 60 },
      { sign: '+', text: 'b' },
      { sign: '-', text: '' },
      { sign: '-', text: '' },
      { sign: '-', text: '' },
      { sign: '-', text: 'c' }
    ]);
  });
});
