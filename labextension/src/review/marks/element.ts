/** Properties of an element that we add to the notebook. */
export interface IElement {
  className: string;
  attributes?: Record<string, string>;
  children?: readonly (Node | string | null)[];
}

/** Create an element for the notebook. Keys in it do not reach the notebook, and clicks do not move the focus. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  { className, attributes = {}, children = [] }: IElement
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  made.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

/** Keep the focus in the user's editor when they click a button. */
export function keepFocus(made: HTMLElement): void {
  made.addEventListener('mousedown', event => {
    if (event.target instanceof Element && event.target.closest('button')) {
      event.preventDefault();
    }
  });
}

/** Keep Lab's own shortcuts and mouse handling out of an element in a cell. */
export function guard<Made extends HTMLElement>(made: Made): Made {
  made.setAttribute('data-lm-suppress-shortcuts', 'true');
  made.addEventListener('mousedown', event => event.stopPropagation()); // JupyterLab would leave the user's editor
  keepFocus(made); // as would the browser
  return made;
}

/** A button that does not take the focus when clicked. */
export function button(
  label: string,
  className: string,
  act: () => void,
  attributes: Record<string, string> = {}
): HTMLButtonElement {
  const made = element('button', {
    className,
    attributes: { type: 'button', ...attributes },
    children: [label]
  });
  made.addEventListener('click', act);
  return made;
}

/** Remove an element from the page; if it has the focus, that moves to `next`. */
export function leave(made: HTMLElement, next: HTMLElement): void {
  if (made.contains(document.activeElement)) {
    next.focus({ preventScroll: true });
  }
  made.remove();
}
