import type { Cell } from '@jupyterlab/cells';
import { diff, unifiedMergeView } from '@codemirror/merge';
import { Compartment, EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { CodeMirrorEditor, jupyterTheme } from '@jupyterlab/codemirror';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';

/**
 * Show what was added and removed since `base` in the editor of a cell itself: it stays the user's to type in, and the
 * difference follows.
 */
export function showInEditor(editor: CodeEditor.IEditor, base: string): IDisposable {
  if (!(editor instanceof CodeMirrorEditor)) {
    return new DisposableDelegate(() => undefined); // another editor, which somebody put in its place
  }
  const shown = new Compartment();
  editor.injectExtension(shown.of(difference(base, editor.model.sharedModel.getSource())));
  return new DisposableDelegate(() => {
    if (!editor.isDisposed) {
      editor.editor.dispatch({ effects: shown.reconfigure([]) });
    }
  });
}

/** The same below a cell whose editor is not shown, as that of rendered Markdown; to be read only. */
export function showBelow(
  { model }: Cell,
  base: string,
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
        difference(base, sharedModel.getSource())
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

function difference(base: string, now: string): ReturnType<typeof unifiedMergeView> {
  const original = isContinued(base, now) ? `${base}\n` : base;
  return unifiedMergeView({ original, gutter: false, mergeControls: false });
}

/** Whether lines were added below the last one, which would count as changed: it gets its line break only then. */
function isContinued(base: string, now: string): boolean {
  const last = diff(base, now).at(-1);
  return last?.fromA === base.length && now[last.fromB] === '\n';
}
