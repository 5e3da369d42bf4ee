import { ADDRESS, Fences, partsOf } from './markdownLines';

const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]/;

/** The pieces of prose that are kept as they are or rewritten. */
const PIECES = [
  /\\\\[^]/,
  /\]\([^)]*|!\[[^\]]*|https?:\/\/[^\s)>]*|<[a-zA-Z/][^<>]*>/,
  /\\\((?<inline>(?:(?!\\[()])[^])+)\\\)/,
  /(?<escaped>\\\$)/,
  /\$(?![\s$])(?:\\[^]|[^$\\])*(?<!\s)\$(?!\d)/,
  /(?<![a-z\d)}\]])(?<amount>\$)(?=[ \t]?\d|[A-Z][A-Z_])/
];
const PIECE = new RegExp(PIECES.map(({ source }) => source).join('|'), 'g');

/** A `$` that begins no formula, also after the page has typeset those that there are. */
const DOLLAR = '<span>&#36;</span>';

/**
 * The Markdown of a model as JupyterLab reads it.
 *
 * Models write mathematics as `\(x\)` and `\[x\]`, too, which JupyterLab shows as brackets, and amounts of money, which
 * it shows as mathematics: "between $5 and $10". Code, addresses, tags and whatever else is not clearly prose stay as
 * they are.
 */
export function asJupyterMarkdown(markdown: string): string {
  const lines = markdown.replace(/\r\n?/g, '\n').split('\n');
  const done: string[] = [];
  let prose: string[] = [];
  const finish = (...others: readonly string[]): void => {
    if (prose.length) {
      done.push(rewriteProse(prose.join('\n')));
      prose = [];
    }
    done.push(...others);
  };
  const isList = ITEM.test(markdown);
  const fences = new Fences();
  let open: 'math' | 'environment' | null = null;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const [prefix, text] = partsOf(line);
    const end = text === '\\[' && !open && !fences.isOpen ? endOfDisplay(lines, at) : 0;
    if (open) {
      open = hasEnd(text, open) ? null : open;
      finish(line);
    } else if (fences.take(text)) {
      finish(line);
    } else if (text.includes('$$') || text.includes('\\begin{')) {
      const kind = text.includes('$$') ? 'math' : 'environment';
      open = isBalanced(text, kind) ? null : kind;
      finish(line);
    } else if (end) {
      finish(
        `${prefix}$$`,
        ...lines.slice(at + 1, end),
        lines[end].replace('\\]', () => '$$')
      );
      at = end;
    } else if (/^\\\[.+\\\][.,;:]?$/.test(text)) {
      finish(prefix + text.replace(/^\\\[(.+)\\\]/, (_, formula: string) => `$$${formula}$$`));
    } else if (!text || ADDRESS.test(text) || (!isList && /^(?:> ?)*(?: {4}|\t)/.test(line))) {
      finish(line);
    } else {
      prose.push(line);
    }
  }
  finish();
  return done.join('\n');
}

function isBalanced(text: string, kind: 'math' | 'environment'): boolean {
  const count = (mark: string): number => text.split(mark).length - 1;
  return kind === 'math' ? count('$$') % 2 === 0 : count('\\begin{') <= count('\\end{');
}

function hasEnd(text: string, kind: 'math' | 'environment'): boolean {
  return !text || text.includes(kind === 'math' ? '$$' : '\\end{');
}

/** The line that ends the formula after this one, or 0. */
function endOfDisplay(lines: readonly string[], start: number): number {
  for (let at = start + 1; at < lines.length; at++) {
    const [, text] = partsOf(lines[at]);
    if (/^\\\][.,;:]?$/.test(text)) {
      return at;
    }
    if (!text || text === '\\[') {
      return 0;
    }
  }
  return 0;
}

/** The lines of a paragraph, with its formulas and single `$` rewritten outside of code. */
function rewriteProse(prose: string): string {
  const parts = prose.split(/(`+)/); // every second one is backticks
  const ends = endsOfCode(parts);
  let shown = '';
  for (let at = 0; at < parts.length; at++) {
    const end = ends[at];
    if (end) {
      shown += parts.slice(at, end + 1).join('');
      at = end;
    } else {
      shown += at % 2 ? parts[at] : parts[at].replace(PIECE, rewritePiece);
    }
  }
  return shown;
}

/** For backticks the place of the next ones of the same length, which end their code; else undefined. */
function endsOfCode(parts: readonly string[]): (number | undefined)[] {
  const next = new Map<string, number>();
  return parts
    .map((_, index) => parts.length - 1 - index)
    .map(at => {
      const end = at % 2 ? next.get(parts[at]) : undefined;
      next.set(parts[at], at);
      return end;
    })
    .reverse();
}

function rewritePiece(piece: string, ...more: unknown[]): string {
  const { amount, escaped, inline } = more.at(-1) as Record<string, string | undefined>;
  if (inline) {
    return `$${inline.trim()}$`;
  }
  return amount || escaped ? DOLLAR : piece;
}
