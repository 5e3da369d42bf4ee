/** A piece of a text, with the reason if it is not what it looks like. */
export interface IPiece {
  text: string;
  /** `invisible`: an invisible character; `lookalike`: a word that looks like another one. */
  trick: 'invisible' | 'lookalike' | null;
}

/**
 * Characters that are invisible, look like a plain space, or change how their neighbours look: controls except tab and
 * line feed, formats (bidirectional ones, joiners, tags), variation selectors, odd spaces, fillers, unassigned ones.
 */
const INVISIBLE =
  /(?![\t\n ])[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Zs}\u2800]/u;
const WORD = `(?:(?!${INVISIBLE.source})[\\p{L}\\p{M}\\p{N}_])+`;
const PIECE = new RegExp(`(?<invisible>${INVISIBLE.source})|${WORD}`, 'gu');
const LATIN = /\p{Script=Latin}/u;
/** Letters of other alphabets; for Greek, which is common in formulas, only those that look Latin. */
const FOREIGN =
  /[\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Lisu}ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονϲϳ]/u;
/** A word that consists only of letters that look Latin. */
const DISGUISED =
  /^(?!.?$)[аеорсухіјѕԁԛԝһӏАВЕКМНОРСТУХІЈЅԚԜӀ][аеорсухіјѕԁԛԝһӏАВЕКМНОРСТУХІЈЅԚԜӀ_\d]*$/u;
const ASCII = /^\p{ASCII}+$/u;

/** The text in pieces, in order; joined they are the text. */
export function pieces(text: string): IPiece[] {
  const found: IPiece[] = [];
  let plain = 0;
  for (const match of text.matchAll(PIECE)) {
    const invisible = match.groups?.invisible !== undefined;
    if (invisible || deceives(match[0])) {
      if (match.index > plain) {
        found.push({ text: text.slice(plain, match.index), trick: null });
      }
      found.push({ text: match[0], trick: invisible ? 'invisible' : 'lookalike' });
      plain = match.index + match[0].length;
    }
  }
  if (plain < text.length) {
    found.push({ text: text.slice(plain), trick: null });
  }
  return found;
}

/** "U+202E". */
export function codePoint(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** The letters that make a word look like another one, each with its code point. */
export function oddCharacters(word: string): string {
  const odd = [...word].filter(letter => !ASCII.test(letter));
  return [...new Set(odd)].map(letter => `${letter} ${codePoint(letter)}`).join(', ');
}

/** A text for places without marks, such as a title: invisible characters are replaced by their code points. */
export function legible(text: string): string {
  return pieces(text)
    .map(({ text, trick }) => (trick === 'invisible' ? `⟨${codePoint(text)}⟩` : text))
    .join('');
}

function deceives(word: string): boolean {
  if (ASCII.test(word)) {
    return false;
  }
  const composed = ASCII.test(word.normalize('NFKC')) && /\p{L}/u.test(word); // Python reads it so
  return composed || DISGUISED.test(word) || (LATIN.test(word) && FOREIGN.test(word));
}
