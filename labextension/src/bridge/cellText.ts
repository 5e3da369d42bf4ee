import type { ISharedCell } from '@jupyter/ydoc';
import type { Cell } from '@jupyterlab/cells';

/** An edit of a text: `text` replaces the characters from `start` to `end`. */
export interface IReplacement {
  start: number;
  end: number;
  text: string;
}

/**
 * The smallest edit from `before` to `after`: without their common start and end, and without splitting a character.
 */
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
    start--; // not between the halves of a character
  }
  if (same && isHighSurrogate(before, before.length - same - 1)) {
    same--;
  }
  return { start, end: before.length - same, text: after.slice(start, after.length - same) };
}

function isHighSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}

/** Set a cell's text; the common start and end are not touched, nor are cursors and others' typing there. */
export function rewrite(cell: ISharedCell, source: string): void {
  const { start, end, text } = replacement(cell.getSource(), source);
  cell.updateSource(start, end, text);
}

/** The user's selection in a cell; empty if there isn't any. */
export function selectedText({ editor, model }: Cell): string {
  if (!editor) {
    return '';
  }
  const { start, end } = editor.getSelection();
  const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((a, b) => a - b);
  return model.sharedModel.getSource().slice(from, to);
}
