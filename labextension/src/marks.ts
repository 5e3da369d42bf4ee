import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPiece } from './characters';
import { codePoint, oddLetters, pieces } from './characters';

/**
 * Mark the characters that do not show and the words that look like others in the text below `node`. They are
 * wrapped, never replaced: the text, and what one copies of it, stays what it is.
 */
export function markTricks(node: Node, trans: TranslationBundle): void {
  for (const child of [...node.childNodes]) {
    if (!(child instanceof Text)) {
      markTricks(child, trans);
      continue;
    }
    const found = pieces(child.data);
    if (found.some(({ trick }) => trick)) {
      child.replaceWith(...found.map(piece => marked(piece, trans)));
    }
  }
}

function marked({ text, trick }: IPiece, trans: TranslationBundle): Node | string {
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
    mark.title = trans.__('Looks like another word: %1', oddLetters(text));
  }
  return mark;
}
