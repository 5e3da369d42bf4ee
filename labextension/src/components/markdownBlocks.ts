/** The start of a list item or a quotation. */
const ITEM = /^([-*+>]|\d+[.)]) /;

/**
 * Splits Markdown into blocks that render the same alone, so that a growing text need not be rendered from its start.
 *
 * A block ends at a blank line outside of fenced code and display mathematics, unless the next line is indented or
 * continues the list or quotation before it.
 */
export function splitBlocks(markdown: string): string[] {
  const blocks: string[] = [];
  let block: string[] = [];
  let fence = '';
  let math = false;
  let blank = false;
  for (const line of markdown.split('\n')) {
    const text = line.trim();
    const goesOn = /^\s/.test(line) || (ITEM.test(line) && ITEM.test(block[0] ?? ''));
    if (blank && !fence && !math && text && !goesOn) {
      blocks.push(block.join('\n'));
      block = [];
    }
    const mark = /^(`{3,}|~{3,})/.exec(text)?.[0];
    if (mark && !math) {
      fence = fence ? (text.startsWith(fence) ? '' : fence) : mark;
    } else if (!fence && (text.match(/\$\$/g) ?? []).length % 2) {
      math = !math;
    }
    block.push(line);
    blank = !text;
  }
  return [...blocks, block.join('\n')].filter(piece => piece.trim());
}
