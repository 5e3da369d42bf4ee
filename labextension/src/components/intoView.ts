/** Scroll an element that a click opened into view, or its start if it is larger than the view. */
export function intoView(opened: HTMLElement | null): void {
  opened?.scrollIntoView({ block: 'nearest' });
}
