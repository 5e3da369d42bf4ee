/** What a click opened comes into view, with its beginning where it is larger than that. */
export function intoView(opened: HTMLElement | null): void {
  opened?.scrollIntoView({ block: 'nearest' });
}
