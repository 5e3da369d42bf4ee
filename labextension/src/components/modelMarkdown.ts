/** The pieces of a text: code, links and tags stay as they are, mathematics and single `$` are rewritten. */
const PIECES = [
  /^[ \t>]*(?<fence>`{3,}|~{3,}).*(?:\n(?![ \t>]*\k<fence>).*)*(?:\n.*)?/,
  /(?<=\n\n)(?: {4}|\t).*/,
  /(?<ticks>`+)(?!`)(?:(?!\n\n)[^]){0,5000}?(?<!`)\k<ticks>(?!`)/,
  /\]\([^)\s]*|https?:\/\/[^\s)>]*|<[a-z/][^<>\n]*>/,
  /\$\$[^]*?\$\$|\\\\/,
  /^[ \t]*\\\[(?<display>(?:(?!\n\n|\\\[)[^])+?)\\\][ \t]*$/,
  /\\\((?<inline>(?:(?!\n\n|\\\()[^])+?)\\\)/,
  /\$(?![\s$])(?:(?!\n\n)(?:\\[^]|[^$\\]))*?(?<!\s)\$(?!\d)/,
  /\$[ \t]+(?:(?!\n\n)(?:\\[^]|[^$\\]))*?[ \t]\$(?!\s*\d)/,
  /\\?(?<dollar>\$)/
];

const PIECE = new RegExp(PIECES.map(({ source }) => source).join('|'), 'gim');

/**
 * The Markdown of a model as JupyterLab reads it.
 *
 * Models write mathematics as `\(x\)` and `\[x\]`, too, which JupyterLab shows as brackets, and amounts of money, which
 * it shows as mathematics: "between $5 and $10". In an own element a `$` begins none.
 */
export function asJupyterMarkdown(markdown: string): string {
  return markdown.replace(PIECE, (piece: string, ...more: unknown[]) => {
    const { display, dollar, inline } = more.at(-1) as Record<string, string | undefined>;
    if (display) {
      return `$$${display}$$`;
    }
    if (inline) {
      return `$${inline.trim()}$`;
    }
    return dollar ? '<span>&#36;</span>' : piece;
  });
}
