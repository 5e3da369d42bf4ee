/** Has an element keep the focus while something takes it; not if the user goes elsewhere meanwhile. */
export async function keepFocus(element: HTMLElement, wait: Promise<unknown>): Promise<void> {
  const stay = (): void => queueMicrotask(() => element.focus());
  const leave = (event: Event): void => {
    if (!(event instanceof KeyboardEvent) || event.key === 'Tab') {
      element.removeEventListener('blur', stay);
    }
  };
  element.addEventListener('blur', stay);
  document.addEventListener('pointerdown', leave, true);
  document.addEventListener('keydown', leave, true);
  try {
    await wait;
  } finally {
    element.removeEventListener('blur', stay);
    document.removeEventListener('pointerdown', leave, true);
    document.removeEventListener('keydown', leave, true);
  }
}
