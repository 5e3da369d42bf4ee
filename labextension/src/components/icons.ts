import {
  LabIcon,
  addIcon,
  codeIcon,
  deleteIcon,
  editIcon,
  extensionIcon,
  fileIcon,
  folderIcon,
  listIcon,
  moveDownIcon,
  refreshIcon,
  runIcon,
  searchIcon,
  stopIcon
} from '@jupyterlab/ui-components';

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
  create_cell: addIcon,
  create_cells: addIcon,
  create_notebook: addIcon,
  update_cell: editIcon,
  edit_cells: editIcon,
  delete_cell: deleteIcon,
  clear_outputs: deleteIcon,
  move_cell: moveDownIcon,
  run_cell: runIcon,
  run_cells: runIcon,
  wait_for_run: runIcon,
  run_code: codeIcon,
  verify_notebook: runIcon,
  restart_kernel: refreshIcon,
  interrupt_kernel: stopIcon,
  get_notebook_state: lookIcon,
  read_cells: lookIcon,
  inspect_variables: lookIcon,
  read_file: fileIcon,
  list_files: folderIcon,
  write_plan: listIcon,
  search_notebook: searchIcon,
  web_search: searchIcon
};

/** The icon for the kind of a tool. */
export function stepIcon(tool: string): LabIcon {
  return STEP_ICONS[tool] ?? extensionIcon;
}
