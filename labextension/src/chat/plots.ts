import type { IOutput } from '@jupyterlab/nbformat';
import type { ICellRef, IChange } from '../api/protocol';

/** A plot that a cell shows. */
export interface IPlot extends ICellRef {
  /** The picture, as a data URL. */
  url: string;
}

/** Outputs that the server omits from an event that would be too large. */
export interface ILeftOut {
  outputs: number;
  plots: number;
}

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/svg+xml'];
/** The note of earlier server versions. */
const EARLIER_NOTE = /^\[Outputs of [\d,]+ characters: see the cell\.\]$/;

/** The server's placeholder for a representation that is too large for the result of a call. */
const TOO_LARGE = /<left out, too large for a cell: (.*)>$/;

/** The plots that cells show after these changes but not before. */
export function newPlots(changes: readonly IChange[]): IPlot[] {
  const byCell = Map.groupBy(changes, ({ notebook, cell_id }) => `${notebook}\0${cell_id}`);
  return [...byCell.values()].flatMap(own => {
    const { notebook, cell_id, before } = own[0];
    const known = new Set((before?.outputs ?? []).flatMap(pictureOf));
    const urls = (own[own.length - 1].after?.outputs ?? []).flatMap(pictureOf);
    return urls.filter(url => !known.has(url)).map(url => ({ notebook, cell_id, url }));
  });
}

/** The omission that an output stands for; null for a real output. */
export function omissionOf({ data, metadata }: IOutput): ILeftOut | null {
  const own = (metadata as { jupyter_agent?: { left_out?: ILeftOut } } | undefined)?.jupyter_agent;
  if (own?.left_out) {
    return own.left_out;
  }
  const { 'text/plain': text, ...others } = (data ?? {}) as Record<string, unknown>;
  if (typeof text !== 'string' || Object.keys(others).length) {
    return null;
  }
  const [, kinds] = TOO_LARGE.exec(text) ?? [];
  return kinds || EARLIER_NOTE.test(text)
    ? { outputs: 1, plots: kinds?.includes('image/') ? 1 : 0 }
    : null;
}

function pictureOf({ data }: IOutput): string[] {
  const bundle = (data ?? {}) as Record<string, unknown>;
  const type = PICTURES.find(name => name in bundle);
  if (!type) {
    return [];
  }
  const value = bundle[type];
  const text = Array.isArray(value) ? value.join('') : String(value);
  return [
    type === 'image/svg+xml'
      ? `data:${type},${encodeURIComponent(text)}`
      : `data:${type};base64,${text.replace(/\s/g, '')}`
  ];
}
