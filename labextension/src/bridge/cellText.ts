import type { ISharedCell } from '@jupyter/ydoc';
import type { Cell } from '@jupyterlab/cells';

/** What has to be done to a text: `text` instead of what is from `start` to `end`. */
export interface IReplacement {
  start: number;
  end: number;
  text: string;
}

/** The smallest one that makes `after` of `before`: without their common beginning and end, and no character is torn. */
export function replacement(before: string, after: string): IReplacement {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) {
    start++;
  }
  let same = 0;
  while (same < most - start && before.at(-1 - same) === after.at(-1 - same)) {
    same++;
  }
  if (start && isHighSurrogate(before, start - 1)) {
    start--; // half a character is none
  }
  if (same && isHighSurrogate(before, before.length - same - 1)) {
    same--;
  }
  return { start, end: before.length - same, text: after.slice(start, after.length - same) };
}

function isHighSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}

/** Give a cell that text, and leave what is the same at both ends: the cursors there, and what others type there. */
export function rewrite(cell: ISharedCell, source: string): void {
  const { start, end, text } = replacement(cell.getSource(), source);
  cell.updateSource(start, end, text);
}

/** What the user has selected in a cell; empty if nothing is. */
export function selectedText({ editor, model }: Cell): string {
  if (!editor) {
    return '';
  }
  const { start, end } = editor.getSelection();
  const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((a, b) => a - b);
  return model.sharedModel.getSource().slice(from, to);
}
