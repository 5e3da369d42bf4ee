import type { IRenderMime } from '@jupyterlab/rendermime';

/**
 * TeX that writes styles, attributes or addresses into the page, and TeX that defines: there is one MathJax, so a
 * definition of an answer would hold in the formulas of notebooks too, which nobody filters.
 */
const COMMANDS =
  /\\(?:unicode|U|require|mmlToken|style|class|cssId|data|html[a-zA-Z]*|href|url|includegraphics|let|[egx]?def|global|csname|(?:re)?new[a-zA-Z]*|New[a-zA-Z]*|provide[a-zA-Z]*|Declare[a-zA-Z]*|definecolor|mathtoolsset|setOptions)(?![a-zA-Z])/;
/** Its option is a colour, a length, or a style. */
const BOX = /\\bbox(?![a-zA-Z])/;

/** Whether a text can be typeset by whoever wrote it: it says nothing to MathJax but what to show. */
export function isOnlyMathematics(text: string): boolean {
  return !COMMANDS.test(text) && !(BOX.test(text) && text.includes(':'));
}

/**
 * Typesets aside, and shows the result after `filter`: what a style names is loaded once its element is in the page.
 * Texts that are more than mathematics stay as they are written; a picture would be loaded aside as well.
 */
export function asideTypesetter(
  typesetter: IRenderMime.ILatexTypesetter,
  filter: (root: HTMLElement) => void
): IRenderMime.ILatexTypesetter {
  return {
    typeset: async host => {
      if (!/[$\\]/.test(host.textContent)) {
        return;
      }
      const aside = host.cloneNode(true) as HTMLElement;
      const putBack = takeOut(aside);
      await typesetter.typeset(aside);
      putBack();
      filter(aside);
      host.replaceChildren(...aside.childNodes);
      await typesetter.typeset(document.createElement('div')); // it would typeset what it knows again, in the page
    }
  };
}

/** Take the texts out that are not only mathematics; what it gives puts them back. */
function takeOut(root: HTMLElement): () => void {
  const texts: Text[] = [];
  root.querySelectorAll('wbr').forEach(wbr => wbr.remove()); // MathJax reads over it, and over comments
  each(root, NodeFilter.SHOW_COMMENT, comment => comment.remove());
  root.normalize();
  each(root, NodeFilter.SHOW_TEXT, text => {
    if (!isOnlyMathematics(text.data)) {
      texts.push(text as Text);
    }
  });
  const places = texts.map(text => {
    const place = document.createElement('span');
    text.replaceWith(place);
    return place;
  });
  return () => places.forEach((place, index) => place.replaceWith(texts[index]));
}

function each(root: HTMLElement, what: number, act: (node: CharacterData) => void): void {
  const found: CharacterData[] = [];
  const walker = document.createTreeWalker(root, what);
  while (walker.nextNode()) {
    found.push(walker.currentNode as CharacterData);
  }
  found.forEach(act);
}
