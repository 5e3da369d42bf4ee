import type { IRenderMime } from '@jupyterlab/rendermime';

/**
 * TeX that writes styles, attributes or addresses into the page, and TeX that defines commands: there is one MathJax,
 * so a definition in an answer would also apply to formulas in notebooks, which are not filtered.
 */
const COMMANDS =
  /\\(?:unicode|U|require|mmlToken|style|class|cssId|data|html[a-zA-Z]*|href|url|includegraphics|let|[egx]?def|global|csname|(?:re)?new[a-zA-Z]*|New[a-zA-Z]*|provide[a-zA-Z]*|Declare[a-zA-Z]*|definecolor|mathtoolsset|setOptions)(?![a-zA-Z])/;
/** Its optional argument is a colour, a length, or a style. */
const BOX = /\\bbox(?![a-zA-Z])/;

/** Whether untrusted text may be typeset: it contains only mathematics, and no instructions to MathJax. */
export function isOnlyMathematics(text: string): boolean {
  return !COMMANDS.test(text) && !(BOX.test(text) && text.includes(':'));
}

/**
 * Typesets outside the page, and shows the result after `filter`: a style loads its resources once its element is in
 * the page. Texts with more than mathematics are left as source; a picture would load even outside the page.
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
      await typesetter.typeset(document.createElement('div')); // MathJax would typeset the elements it remembers again, in the page
    }
  };
}

/** Remove the texts that are not only mathematics; the returned function restores them. */
function takeOut(root: HTMLElement): () => void {
  const texts: Text[] = [];
  root.querySelectorAll('wbr').forEach(wbr => wbr.remove()); // MathJax reads across it, and across comments
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
