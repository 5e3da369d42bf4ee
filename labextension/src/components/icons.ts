import { LabIcon } from '@jupyterlab/ui-components';

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
