/**
 * Line ends of cells. CodeMirror treats `\r\n` as one character, and JupyterLab 4.6 uses CodeMirror's positions to
 * write into the document, in which it is two: text typed further down is stored in a different place than shown
 * (https://github.com/jupyterlab/jupyterlab/issues/10770). Here editors have exactly the characters of the document,
 * and the document has no `\r\n`.
 */
import type { Extension } from '@codemirror/state';
import { EditorState } from '@codemirror/state';
import type { YNotebook } from '@jupyter/ydoc';
import type { IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { EditorExtensionRegistry, YSyncConfig, ySyncAnnotation } from '@jupyterlab/codemirror';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import * as Y from 'yjs';
import type { SharedCell } from './pageCells';

/** Cells changed in one transaction: Yjs finishes the observers' transactions for each by recursion. */
const BATCH = 200;
const BREAK = /(?<!\r)\r+\n/g; // starting with the first of many: otherwise quadratic

/** The text with `\n` for each `\r\n`. A `\r` alone stays: it is one character everywhere. */
export function normalizeLineEnds(text: string): string {
  return text.includes('\r') ? text.replace(BREAK, '\n') : text;
}

/** Normalize line ends in all notebooks and cells of this page. */
export function unifyLineEnds(
  notebooks: INotebookTracker,
  editors: IEditorExtensionRegistry
): void {
  editors.addExtension({
    name: 'jupyter-agent:line-ends',
    factory: ({ model }) =>
      'cell_type' in model.sharedModel
        ? EditorExtensionRegistry.createImmutableExtension(OF_CELLS)
        : null
  });
  const watched = new WeakSet<Y.Doc>();
  const watch = ({ context }: NotebookPanel): void => {
    const { ydoc } = context.model.sharedModel as YNotebook;
    if (!watched.has(ydoc)) {
      watched.add(ydoc);
      unifyAll(ydoc, sourcesOf(cellsOf(ydoc).toArray()));
      ydoc.on('afterAllTransactions', follow);
    }
  };
  notebooks.widgetAdded.connect((_, panel) => watch(panel));
  notebooks.forEach(watch);
}

/** Normalize written or loaded text in the same tick, so that no one can type in between. */
function follow(doc: Y.Doc, transactions: readonly Y.Transaction[]): void {
  const cells = cellsOf(doc);
  const sources = new Set<Y.Text>();
  for (const { changed, beforeState, origin } of transactions) {
    if (origin instanceof YSyncConfig) {
      continue; // typed in an editor, which cannot be changed during its own update and adds no `\r\n`
    }
    const types: unknown[] = [...changed.keys()];
    const isNew = ({ _item: item }: SharedCell): boolean =>
      !item || item.id.clock >= (beforeState.get(item.id.client) ?? 0);
    const added = types.includes(cells) ? sourcesOf(cells.toArray().filter(isNew)) : [];
    [...types.filter(isSource), ...added].forEach(source => sources.add(source));
  }
  unifyAll(doc, [...sources]);
}

/** Not a step in the user's undo, which only tracks editors. */
function unifyAll(ydoc: Y.Doc, sources: readonly Y.Text[]): void {
  const odd = sources.filter(source => breaks(source.toJSON()).length);
  for (let start = 0; start < odd.length; start += BATCH) {
    ydoc.transact(() => odd.slice(start, start + BATCH).forEach(unify), unifyLineEnds);
  }
}

/** Only by deletions: characters that two pages delete at the same time are deleted once. */
function unify(source: Y.Text): void {
  let end = 0;
  const steps = breaks(source.toJSON()).flatMap(({ index, length }) => {
    const retain = index - end;
    end = index + length;
    return [...(retain ? [{ retain }] : []), { delete: length }];
  });
  source.applyDelta(steps); // one by one, each would be looked up from the start
}

function cellsOf(ydoc: Y.Doc): Y.Array<SharedCell> {
  return ydoc.getArray<SharedCell>('cells');
}

function sourcesOf(cells: readonly SharedCell[]): Y.Text[] {
  return cells.map(cell => cell.get('source')).filter(isSource);
}

function isSource(type: unknown): type is Y.Text {
  return type instanceof Y.Text && type._item?.parentSub === 'source';
}

/** The positions of the superfluous characters. */
function breaks(text: string): { index: number; length: number }[] {
  const found = text.includes('\r') ? [...text.matchAll(BREAK)] : [];
  return found.map(({ index, 0: { length } }) => ({ index, length: length - 1 }));
}

/** Normalizes pasted or dropped text, which has the line ends of its system. */
const pasted = EditorState.transactionFilter.of(transaction => {
  if (!transaction.docChanged || transaction.annotation(ySyncAnnotation)) {
    return transaction;
  }
  const changes: { from: number; to: number }[] = [];
  transaction.changes.iterChanges((_fromA, _toA, at, _toB, inserted) => {
    for (const { index, length } of breaks(inserted.toString())) {
      changes.push({ from: at + index, to: at + index + length });
    }
  });
  return changes.length ? [transaction, { changes, sequential: true }] : transaction;
});

const OF_CELLS: Extension = [EditorState.lineSeparator.of('\n'), pasted];
