import {
  LabIcon,
  addIcon,
  codeIcon,
  deleteIcon,
  editIcon,
  extensionIcon,
  fileIcon,
  listIcon,
  moveDownIcon,
  refreshIcon,
  runIcon,
  searchIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { ITool } from '../api/tools';

const svg = (path: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">${path}</g></svg>`;

/** The panel's own icon: a cell with a line being written in it. */
export const assistantIcon = new LabIcon({
  name: 'jupyter-agent:assistant',
  svgstr: svg(
    '<path d="M4 4h16a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2h-7l-5 4v-4H4a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2zm0 2v9h6v1.8l2.3-1.8H20V6z"/><path d="M6 8.2l2.6 2.3L6 12.8V8.2zM10 12h7v1.5h-7z"/>'
  )
});

/** An arrow upwards. */
export const sendIcon = new LabIcon({
  name: 'jupyter-agent:send',
  svgstr: svg('<path d="M11 20V7.8l-5.6 5.6L4 12l8-8 8 8-1.4 1.4L13 7.8V20z"/>')
});

/** An eye. */
const lookIcon = new LabIcon({
  name: 'jupyter-agent:look',
  svgstr: svg(
    '<path d="M12 5C7 5 3 8.5 1.5 12 3 15.5 7 19 12 19s9-3.5 10.5-7C21 8.5 17 5 12 5zm0 12c-3.6 0-6.8-2.2-8.3-5C5.2 9.2 8.4 7 12 7s6.8 2.2 8.3 5c-1.5 2.8-4.7 5-8.3 5zm0-8a3 3 0 1 0 0 6 3 3 0 0 0 0-6z"/>'
  )
});

const STEP_ICONS: Readonly<Record<string, LabIcon>> = {
  add: addIcon,
  code: codeIcon,
  delete: deleteIcon,
  edit: editIcon,
  file: fileIcon,
  list: listIcon,
  look: lookIcon,
  move: moveDownIcon,
  refresh: refreshIcon,
  run: runIcon,
  search: searchIcon,
  stop: stopIcon
};

/** The icon of a tool. */
export function stepIcon(tool: ITool | undefined): LabIcon {
  const icon = tool?.icon ?? '';
  return Object.hasOwn(STEP_ICONS, icon) ? STEP_ICONS[icon] : extensionIcon;
}
