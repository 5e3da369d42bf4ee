import type { ISharedCell } from '@jupyter/ydoc';
import type { Cell } from '@jupyterlab/cells';

/** Give a cell that text, and leave what is the same at both ends: the cursors there, and what others type there. */
export function rewrite(cell: ISharedCell, source: string): void {
  const [now, text] = [[...cell.getSource()], [...source]]; // no character is torn
  const most = Math.min(now.length, text.length);
  let start = 0;
  while (start < most && now[start] === text[start]) {
    start++;
  }
  let same = 0;
  while (same < most - start && now.at(-1 - same) === text.at(-1 - same)) {
    same++;
  }
  const length = (characters: string[]): number => characters.join('').length;
  cell.updateSource(
    length(now.slice(0, start)),
    length(now.slice(0, now.length - same)),
    text.slice(start, text.length - same).join('')
  );
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
