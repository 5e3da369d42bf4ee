import type { Cell } from '@jupyterlab/cells';
import {
  diff,
  getChunks,
  getOriginalDoc,
  originalDocChangeEffect,
  unifiedMergeView
} from '@codemirror/merge';
import type { Extension } from '@codemirror/state';
import { ChangeSet, Compartment, EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { CodeMirrorEditor, jupyterTheme } from '@jupyterlab/codemirror';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';
import { baseFor } from '../authorship';
import type { IPendingCell } from '../pending';

/**
 * Show what the assistant added and removed in the editor of a cell itself: it stays the user's to type in, and the
 * difference follows.
 */
export function showInEditor(editor: CodeEditor.IEditor, pending: IPendingCell): IDisposable {
  if (!(editor instanceof CodeMirrorEditor)) {
    return new DisposableDelegate(() => undefined); // another editor, which somebody put in its place
  }
  const shown = new Compartment();
  const view = editor.editor;
  const open = (): void =>
    editor.injectExtension(shown.of(difference(pending, editor.model.sharedModel.getSource())));
  if (view.composing) {
    view.dom.addEventListener('compositionend', open, { once: true }); // what is composed must not be torn
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

/** The same below a cell whose editor is not shown, as that of rendered Markdown; to be read only. */
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

/** The assistant's lines only: what people edit is in the original, too, from the moment they type it. */
function difference(pending: IPendingCell, now: string): Extension {
  return [
    unifiedMergeView({ original: originalFor(pending, now), gutter: false, mergeControls: false }),
    EditorView.updateListener.of(({ docChanged, view }) => {
      if (docChanged) {
        queueMicrotask(() => followEdits(view, pending)); // a transaction of its own: theirs stays as it is
      }
    })
  ];
}

function followEdits(view: EditorView, pending: IPendingCell): void {
  if (!getChunks(view.state)) {
    return; // it is not shown any more
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

/** Whether lines were added below the last one, which would count as changed: it gets its line break only then. */
function isContinued(base: string, now: string): boolean {
  const last = diff(base, now).at(-1);
  return last?.fromA === base.length && now[last.fromB] === '\n';
}
