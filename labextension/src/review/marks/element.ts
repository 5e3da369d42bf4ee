/** What an element of ours in the notebook has. */
export interface IElement {
  className: string;
  attributes?: Record<string, string>;
  children?: readonly (Node | string | null)[];
}

/** An element of ours in the notebook. Keys in it are not the notebook's, and the mouse takes no focus away. */
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

/** Let an element live in a cell: Lab's own shortcuts and its handling of the mouse stay out of it. */
export function guard<Made extends HTMLElement>(made: Made): Made {
  made.setAttribute('data-lm-suppress-shortcuts', 'true');
  made.addEventListener('mousedown', event => event.stopPropagation()); // JupyterLab would leave the user's editor
  keepFocus(made); // and so would the browser
  return made;
}

/** A button that does not take the focus when it is clicked. */
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

/** Take an element out of the page; if it has the focus, that moves to `next`. */
export function leave(made: HTMLElement, next: HTMLElement): void {
  if (made.contains(document.activeElement)) {
    next.focus({ preventScroll: true });
  }
  made.remove();
}
