import { ADDRESS, Fences, partsOf } from './markdownLines';

/** The start of a list item or a quotation. */
const ITEM = /^([-*+>]|\d+[.)]) /;

/** The start or end of a part that unfolds, unless it is in code. */
const DETAILS = /`[^`]*`|<(\/?)details\b/gi;
const LABEL = /\[([^[\]]+)\]/g;

/**
 * Splits Markdown into blocks that render the same alone, so that a growing text need not be rendered from its start.
 *
 * A block ends at a blank line outside of fenced code, display mathematics and what unfolds, unless the next line is
 * indented or continues the list or quotation before it. It gets a copy of the addresses that it refers to.
 */
export function splitBlocks(markdown: string): string[] {
  const blocks: string[] = [];
  const addresses = new Map<string, string>();
  let block: string[] = [];
  const fences = new Fences();
  let math = false;
  let unfolding = 0;
  let blank = false;
  for (const line of markdown.split('\n')) {
    const text = line.trim();
    const goesOn = /^\s/.test(line) || (ITEM.test(line) && ITEM.test(block[0] ?? ''));
    if (blank && !fences.isOpen && !math && unfolding <= 0 && text && !goesOn) {
      blocks.push(block.join('\n'));
      block = [];
      unfolding = 0;
    }
    if (math || !fences.take(partsOf(line)[1])) {
      const label = ADDRESS.exec(line)?.[1].toLowerCase();
      if (label && !addresses.has(label)) {
        addresses.set(label, line);
      }
      if ((text.match(/\$\$/g) ?? []).length % 2) {
        math = !math;
      }
      for (const [tag, end] of text.matchAll(DETAILS)) {
        unfolding += tag.startsWith('`') ? 0 : end ? -1 : 1;
      }
    }
    block.push(line);
    blank = !text;
  }
  return [...blocks, block.join('\n')]
    .filter(piece => piece.trim())
    .map(piece => withAddresses(piece, addresses));
}

function withAddresses(block: string, addresses: ReadonlyMap<string, string>): string {
  const labels = new Set([...block.matchAll(LABEL)].map(([, label]) => label.toLowerCase()));
  const lines = [...labels].flatMap(label => addresses.get(label) ?? []);
  const missing = lines.filter(line => !block.includes(line));
  return missing.length ? [...missing, '', block].join('\n') : block; // before it: its code may be open
}
