const OFFSET = '--jp-agent-notification-offset';

/**
 * Keep JupyterLab's notifications off the panel: they would cover its composer.
 *
 * They are in the lower right corner of the window; the style sheet shifts them by the width measured here.
 */
export function keepNotificationsBeside(panel: HTMLElement): void {
  new ResizeObserver(() => {
    const { left, right } = panel.getBoundingClientRect(); // both 0 while it is hidden
    const inCorner = left > window.innerWidth - right;
    const offset = inCorner ? document.documentElement.clientWidth - left : 0;
    document.documentElement.style.setProperty(OFFSET, `${offset}px`);
  }).observe(panel);
}
