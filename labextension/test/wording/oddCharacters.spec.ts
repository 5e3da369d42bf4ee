import { nullTranslator } from '@jupyterlab/translation';
import { markOddCharacters } from '../../src/components/oddCharacterMarks';
import { codePoint, legible, oddCharacters, pieces } from '../../src/wording/oddCharacters';

const trans = nullTranslator.load('jupyter_agent');

function tricks(text: string): string[] {
  return pieces(text).flatMap(({ text, trick }) => (trick ? [`${trick} ${text}`] : []));
}

describe('pieces', () => {
  it.each([
    '\0',
    '\x1b',
    '\b',
    '\r',
    '\x7f',
    '\x9b',
    '\xa0',
    '\xad',
    '\u034f',
    '\u061c',
    '\u115f',
    '\u17b4',
    '\u180e',
    '\u2002',
    '\u200b',
    '\u200d',
    '\u2028',
    '\u202e',
    '\u2060',
    '\u206f',
    '\u2800',
    '\u3164',
    '\ud800',
    '\ufe0f',
    '\ufeff',
    '\uffa0',
    '\ufff9',
    '\u{e0041}',
    '\u{e0100}',
    '\u{f0000}'
  ])('marks %j, which does not show', hidden => {
    expect(pieces(`a${hidden}b`)).toEqual([
      { text: 'a', trick: null },
      { text: hidden, trick: 'invisible' },
      { text: 'b', trick: null }
    ]);
  });

  it('leaves alone what shows as it is', () => {
    const code =
      'def größe(Δx, σ_x, µm):\n\treturn "Сеть Wi-Fi", "数据", "🙂", data1, None  # naïve ½';
    expect(pieces(code)).toEqual([{ text: code, trick: null }]);
  });

  it.each(['pаypal', 'os\u0435', 'ѕсоре', 'ｏｓ', '𝐨𝐬', 'Ο_max', 'ехес'])(
    'marks %s, which reads as another word',
    word => expect(tricks(`${word}(1)`)).toEqual([`lookalike ${word}`])
  );

  it('is the text again when joined', () => {
    const all = Array.from({ length: 0x3000 }, (_, code) => String.fromCharCode(code)).join('');
    expect(
      pieces(all)
        .map(({ text }) => text)
        .join('')
    ).toBe(all);
  });
});

describe('names of characters', () => {
  it('are their numbers', () => {
    expect(codePoint('\u202e')).toBe('U+202E');
    expect(codePoint('\u{e0041}')).toBe('U+E0041');
    expect(legible('a\u202eb.ipynb')).toBe('a⟨U+202E⟩b.ipynb');
    expect(oddCharacters('pаypаl')).toBe('а U+0430');
  });
});

describe('markTricks', () => {
  it('wraps, and keeps the text', () => {
    const code = document.createElement('code');
    code.innerHTML = 'x = <b>pаy\u202e"\u200b</b>';
    const text = code.textContent;
    markOddCharacters(code, trans);
    expect(code.textContent).toBe(text);
    const marks = [...code.querySelectorAll('b mark')].map(mark => mark.getAttribute('title'));
    expect(marks).toEqual([
      'Looks like another word: а U+0430',
      'Hidden character U+202E',
      'Hidden character U+200B'
    ]);
    expect(code.querySelector('[role=img]')?.getAttribute('aria-label')).toBe(marks[1]);
  });
});
