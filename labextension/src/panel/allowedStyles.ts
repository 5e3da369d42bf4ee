/** The style properties allowed in untrusted text: those for the look and size of words. */
const ALLOWED =
  /^(?:color|background-color|opacity|direction|display|white-space|letter-spacing|word-spacing|line-height|vertical-align|overflow-wrap|word-break|text-(?:align|indent|transform|overflow|decoration(?:-(?:color|line|style|thickness))?)|font-(?:family|size|style|variant|weight)|(?:min-|max-)?(?:width|height)|(?:margin|padding)-(?:top|right|bottom|left)|border-(?:(?:top|right|bottom|left)-(?:color|style|width)|(?:top|bottom)-(?:left|right)-radius|collapse|spacing)|list-style-(?:type|position)|table-layout|caption-side)$/;
/** Properties that MathJax also needs, to position the pieces of a formula; no text can name its elements. */
const OF_FORMULAS = /^(?:position|top|right|bottom|left|transform)$/;

/** Words, numbers and font names; the only functions are colours, as the browser itself writes them. */
const PLAIN = /^(?:[\w\s.,%#"'/+-]|(?:rgb|hsl)a?\([\d\s.,%/-]*\))+$/;
const MOVED = /^(?:(?:rotate|translate[XY]?|scale[XY]?)\([\w\s.,%+-]*\)\s*)+$/;

/** Reduce an element's `style`, as parsed by the browser, to properties that load nothing and cover nothing. */
export function restyle(element: Element): void {
  if (!element.hasAttribute('style')) {
    return;
  }
  const style = (element as Partial<ElementCSSInlineStyle>).style;
  const ofFormula = element.tagName.startsWith('MJX-');
  const allowed = Array.from(style ?? [], name => [name, style!.getPropertyValue(name)]).filter(
    ([name, value]) =>
      (ALLOWED.test(name) && PLAIN.test(value)) ||
      (ofFormula && OF_FORMULAS.test(name) && isPlace(value))
  );
  element.removeAttribute('style');
  allowed.forEach(([name, value]) => style!.setProperty(name, value));
}

function isPlace(value: string): boolean {
  return MOVED.test(value) || (PLAIN.test(value) && value !== 'fixed' && value !== 'sticky');
}
