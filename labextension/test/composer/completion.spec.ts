import { nullTranslator } from '@jupyterlab/translation';
import { variablesIn } from '../../src/api/toolRuns';
import { tokenAt } from '../../src/composer/completion';
import { Slash } from '../../src/composer/slash';

const trans = nullTranslator.load('jupyter_agent');

describe('tokenAt', () => {
  it.each([
    ['/fi', 3, { kind: 'command', query: 'fi', from: 0, to: 3 }],
    ['/model son', 10, { kind: 'value', command: 'model', query: 'son', from: 7, to: 10 }],
    ['see @df now', 7, { kind: 'mention', query: 'df', from: 4, to: 7 }],
    ['see @df now', 6, { kind: 'mention', query: 'd', from: 4, to: 7 }],
    ['see @cell ', 10, { kind: 'mention', query: 'cell ', from: 4, to: 10 }],
    ['see @cell 12', 12, { kind: 'mention', query: 'cell 12', from: 4, to: 12 }],
    ['@my data/', 9, { kind: 'mention', query: 'my data/', from: 0, to: 9 }],
    [
      'see @my data/old ones/sa',
      24,
      { kind: 'mention', query: 'my data/old ones/sa', from: 4, to: 24 }
    ],
    ['(@data/a.csv', 12, { kind: 'mention', query: 'data/a.csv', from: 1, to: 12 }]
  ])('finds the word in %j at %i', (text, cursor, token) => {
    expect(tokenAt(text, cursor)).toEqual(token);
  });

  it.each([
    'me@home.org',
    'a / b',
    'see /tmp',
    '@one two',
    '@cell 3 is',
    '@cell  3',
    '@my data/sales of',
    '@a\nb/c',
    ''
  ])('finds none in %j', text => {
    expect(tokenAt(text, text.length)).toBeNull();
  });
});

describe('Slash', () => {
  const run = jest.fn();
  const slash = new Slash([{ name: 'undo', description: '', run }], trans);

  it('leaves alone what is no command', () => {
    expect(slash.expand('/home/me is a folder')).toBe('/home/me is a folder');
    expect(slash.expand('a / b')).toBe('a / b');
  });

  it('puts what is written behind a name where its text has a place for it', () => {
    slash.own = [{ name: 'say', description: '', text: 'Say {input}, {input}!' }];
    expect(slash.expand('/say $1 and $&')).toBe('Say $1 and $&, $1 and $&!');
    expect(slash.expand('/explain in German')).toBe('Explain this step by step.\n\nin German');
  });

  it('lets nobody take the name of what acts here, but the others', () => {
    slash.own = [
      { name: 'undo', description: '', text: 'Forget it.' },
      { name: 'fix', description: '', text: 'Mend it.' }
    ];
    (slash.expand('/undo') as () => void)();
    expect(run).toHaveBeenCalledWith('');
    expect(slash.expand('/fix')).toBe('Mend it.');
  });
});

describe('variablesIn', () => {
  it('reads names, not the rows of tables or what is defined', () => {
    const text = [
      "df: DataFrame 2x1, 144 B: 'a' int64",
      '  0 | 1',
      'x: int 1',
      '... 5 more: a, b',
      'functions and classes: f'
    ].join('\n');
    expect(variablesIn(text)).toEqual([
      { name: 'df', about: "DataFrame 2x1, 144 B: 'a' int64" },
      { name: 'x', about: 'int 1' }
    ]);
  });
});
