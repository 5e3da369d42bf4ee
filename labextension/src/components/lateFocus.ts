/**
 * Waits for something to be ready, and returns whether it may take the focus: not if the user has clicked in the
 * meantime, since they expect to type there.
 */
export async function mayFocusAfter(wait: Promise<unknown>): Promise<boolean> {
  let may = true;
  await listening(wait, ['pointerdown'], () => {
    may = false;
  });
  return may;
}

/** Return the focus to an element if something takes it before `wait` settles, unless the user has moved it. */
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
