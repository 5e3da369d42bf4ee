/** What of a `style` may stay in a text that somebody else wrote: how words look and how much room they take. */
const ALLOWED =
  /^(?:color|background-color|opacity|direction|display|white-space|letter-spacing|word-spacing|line-height|vertical-align|overflow-wrap|word-break|text-(?:align|indent|transform|overflow|decoration(?:-(?:color|line|style|thickness))?)|font-(?:family|size|style|variant|weight)|(?:min-|max-)?(?:width|height)|(?:margin|padding)-(?:top|right|bottom|left)|border-(?:(?:top|right|bottom|left)-(?:color|style|width)|(?:top|bottom)-(?:left|right)-radius|collapse|spacing)|list-style-(?:type|position)|table-layout|caption-side)$/;
/** What MathJax needs besides, to put the pieces of a formula in their places; no text can name its elements. */
const OF_FORMULAS = /^(?:position|top|right|bottom|left|transform)$/;

/** Words, numbers and names of fonts; of functions only colours, which the browser itself writes so. */
const PLAIN = /^(?:[\w\s.,%#"'/+-]|(?:rgb|hsl)a?\([\d\s.,%/-]*\))+$/;
const MOVED = /^(?:(?:rotate|translate[XY]?|scale[XY]?)\([\w\s.,%+-]*\)\s*)+$/;

/** Leave of an element's `style` only what loads nothing and covers nothing; as the browser reads it, escapes and all. */
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
