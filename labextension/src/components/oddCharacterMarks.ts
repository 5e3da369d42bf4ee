import type { TranslationBundle } from '@jupyterlab/translation';
import { MANY_EMPTY, isEmpty } from '../review/diff';
import type { IPiece } from '../wording/oddCharacters';
import { codePoint, oddCharacters, pieces } from '../wording/oddCharacters';

/**
 * Mark the invisible characters and lookalike words in the text below `node`. They are wrapped, never replaced: the
 * text, and copies of it, stay the same.
 */
export function markOddCharacters(node: Node, trans: TranslationBundle): void {
  for (const child of [...node.childNodes]) {
    if (!(child instanceof Text)) {
      markOddCharacters(child, trans);
      continue;
    }
    const found = pieces(child.data);
    if (found.some(({ trick }) => trick)) {
      child.replaceWith(...found.map(piece => markPiece(piece, trans)));
    }
  }
}

function markPiece({ text, trick }: IPiece, trans: TranslationBundle): Node | string {
  if (!trick) {
    return text;
  }
  const mark = document.createElement('mark');
  mark.className = `jp-Agent-${trick}`;
  mark.textContent = text;
  if (trick === 'invisible') {
    mark.dataset.code = codePoint(text);
    mark.title = trans.__('Hidden character %1', codePoint(text));
    mark.setAttribute('role', 'img');
    mark.setAttribute('aria-label', mark.title);
  } else {
    mark.title = trans.__('Looks like another word: %1', oddCharacters(text));
  }
  return mark;
}

/** Show many empty lines in a row below `node` as one with their count; copied text still has them all. */
export function foldEmptyLines(node: Node, trans: TranslationBundle): void {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) {
    texts.push(walker.currentNode as Text);
  }
  let fresh = true; // at the start of a line
  for (const text of texts) {
    const { data } = text;
    const parts = foldRuns(data, fresh, trans);
    if (parts.length > 1 || parts[0] !== data) {
      text.replaceWith(...parts);
    }
    fresh = data ? data.endsWith('\n') : fresh;
  }
}

function foldRuns(text: string, fresh: boolean, trans: TranslationBundle): (Node | string)[] {
  const lines = text.split(/(?<=\n)/);
  const parts: (Node | string)[] = [];
  for (let start = 0, end = 0; start < lines.length; start = end) {
    end = start;
    while ((end > 0 || fresh) && lines[end]?.endsWith('\n') && isEmpty(lines[end])) {
      end++;
    }
    const count = end - start;
    end = Math.max(end, start + 1);
    const run = lines.slice(start, end).join('');
    parts.push(count < MANY_EMPTY ? run : countMark(run, count, trans));
  }
  return parts;
}

function countMark(run: string, count: number, trans: TranslationBundle): HTMLElement {
  const mark = document.createElement('span');
  mark.className = 'jp-Agent-empty';
  mark.textContent = run;
  mark.dataset.label = trans._n('1 empty line', '%1 empty lines', count);
  mark.setAttribute('role', 'img');
  mark.setAttribute('aria-label', mark.dataset.label);
  return mark;
}
