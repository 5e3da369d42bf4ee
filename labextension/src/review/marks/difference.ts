import type { Cell } from '@jupyterlab/cells';
import { foldedRanges, unfoldEffect } from '@codemirror/language';
import {
  getChunks,
  getOriginalDoc,
  originalDocChangeEffect,
  unifiedMergeView
} from '@codemirror/merge';
import type { Extension, StateEffect } from '@codemirror/state';
import { ChangeSet, Compartment, EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { CodeMirrorEditor, jupyterTheme } from '@jupyterlab/codemirror';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';
import { baseFor } from '../authorship';
import { changedCharacters, changedLines } from '../diff';
import type { IPendingCell } from '../pending';

/**
 * Show the assistant's additions and removals in the cell's own editor, in which the user can keep typing; the diff
 * follows.
 */
export function showInEditor(editor: CodeEditor.IEditor, pending: IPendingCell): IDisposable {
  if (!(editor instanceof CodeMirrorEditor)) {
    return new DisposableDelegate(() => undefined); // another editor has replaced it
  }
  const shown = new Compartment();
  const view = editor.editor;
  const open = (): void => {
    editor.injectExtension(shown.of(difference(pending, editor.model.sharedModel.getSource())));
    unfoldChanges(view);
  };
  if (view.composing) {
    view.dom.addEventListener('compositionend', open, { once: true }); // do not interrupt an input method's composition
  } else {
    open();
  }
  return new DisposableDelegate(() => {
    view.dom.removeEventListener('compositionend', open);
    if (!editor.isDisposed) {
      view.dispatch({ effects: shown.reconfigure([]) });
    }
  });
}

/** Folded code would hide the changes in it. */
function unfoldChanges(view: EditorView): void {
  const folded = foldedRanges(view.state);
  const effects: StateEffect<unknown>[] = [];
  for (const { fromB, endB } of getChunks(view.state)?.chunks ?? []) {
    folded.between(fromB, endB, (from, to) => void effects.push(unfoldEffect.of({ from, to })));
  }
  view.dispatch({ effects });
}

/** The same, read-only, below a cell whose editor is not shown, such as rendered Markdown. */
export function showBelow(
  { model }: Cell,
  pending: IPendingCell,
  languages: IEditorLanguageRegistry,
  host: HTMLElement
): IDisposable {
  const { sharedModel } = model;
  const language = new Compartment();
  const view = new EditorView({
    parent: host,
    state: EditorState.create({
      doc: sharedModel.getSource(),
      extensions: [
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        EditorView.lineWrapping,
        jupyterTheme,
        language.of([]),
        difference(pending, sharedModel.getSource())
      ]
    })
  });
  const known = languages.findByMIME(model.mimeType);
  void (known && languages.getLanguage(known))?.then(loaded => {
    view.dispatch({ effects: language.reconfigure(loaded?.support ?? []) });
  });
  const follow = (): void => {
    const insert = sharedModel.getSource();
    if (insert !== view.state.doc.toString()) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert } });
    }
  };
  sharedModel.changed.connect(follow);
  return new DisposableDelegate(() => {
    sharedModel.changed.disconnect(follow);
    view.destroy();
  });
}

/** Shows only the assistant's lines: people's edits are also applied to the original as they type. */
function difference(pending: IPendingCell, now: string): Extension {
  return [
    unifiedMergeView({
      original: originalFor(pending, now),
      gutter: false,
      mergeControls: false,
      diffConfig: { override: changedCharacters }
    }),
    EditorView.updateListener.of(({ docChanged, view }) => {
      if (docChanged) {
        queueMicrotask(() => followEdits(view, pending)); // a separate transaction: theirs is not changed
      }
    })
  ];
}

function followEdits(view: EditorView, pending: IPendingCell): void {
  if (!getChunks(view.state)) {
    return; // no longer shown
  }
  const original = getOriginalDoc(view.state);
  const insert = originalFor(pending, view.state.doc.toString());
  if (original.toString() !== insert) {
    const changes = ChangeSet.of({ from: 0, to: original.length, insert }, original.length);
    view.dispatch({ effects: originalDocChangeEffect(view.state, changes) });
  }
}

function originalFor(pending: IPendingCell, now: string): string {
  const base = baseFor(pending, now);
  return isContinued(base, now) ? `${base}\n` : base;
}

/** Whether lines were added below the last one, whose new line break would otherwise make it count as changed. */
function isContinued(base: string, now: string): boolean {
  const last = changedLines(base, now).at(-1);
  return last !== undefined && last.from === last.to && last.to === base.split('\n').length;
}
