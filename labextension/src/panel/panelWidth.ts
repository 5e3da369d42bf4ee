import type { Widget } from '@lumino/widgets';
import { SplitLayout, SplitPanel } from '@lumino/widgets';

/** Minimum width for readable lines, in pixels. */
const READABLE_PX = 380;
/** Minimum width left for the notebook, in pixels. */
const NOTEBOOK_PX = 480;

/** Widen the side area that contains a widget to a readable column, at the expense of the main area. */
export function widenPanel(widget: Widget): void {
  let area = widget;
  while (area.parent && !(area.parent instanceof SplitPanel)) {
    area = area.parent;
  }
  const split = area.parent;
  if (!(split instanceof SplitPanel) || !(split.layout instanceof SplitLayout)) {
    return; // not in a side area of JupyterLab: the application decides
  }
  const own = split.widgets.indexOf(area);
  const main = own === 0 ? 1 : own - 1; // beside it
  const sizes = split.layout.absoluteSizes();
  const more = Math.min(READABLE_PX - sizes[own], (sizes[main] ?? 0) - NOTEBOOK_PX);
  if (more > 0) {
    split.setRelativeSizes(sizes.with(own, sizes[own] + more).with(main, sizes[main] - more));
  }
}
