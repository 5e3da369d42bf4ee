/**
 * Waits for what takes a while to be there, and says whether it may have the focus: not if the user has pressed the
 * mouse meanwhile, as what they type from then on belongs where they pressed it.
 */
export async function mayFocusAfter(wait: Promise<unknown>): Promise<boolean> {
  let may = true;
  await listening(wait, ['pointerdown'], () => {
    may = false;
  });
  return may;
}

/** Has an element keep the focus while something takes it; not if the user goes elsewhere meanwhile. */
export async function keepFocus(element: HTMLElement, wait: Promise<unknown>): Promise<void> {
  const stay = (): void => queueMicrotask(() => element.focus());
  const release = (): void => element.removeEventListener('blur', stay);
  element.addEventListener('blur', stay);
  try {
    await listening(wait, ['pointerdown', 'keydown'], event => {
      if (!(event instanceof KeyboardEvent) || event.key === 'Tab') {
        release();
      }
    });
  } finally {
    release();
  }
}

async function listening(
  wait: Promise<unknown>,
  events: readonly string[],
  hear: (event: Event) => void
): Promise<void> {
  events.forEach(event => document.addEventListener(event, hear, true));
  try {
    await wait;
  } finally {
    events.forEach(event => document.removeEventListener(event, hear, true));
  }
}
