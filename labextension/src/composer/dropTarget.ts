import type { Cell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';
import type { Drag } from '@lumino/dragdrop';
import type { Attachment } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Draft } from './draft';

const CELLS = 'internal:cells';
const FILES = 'application/x-jupyter-icontents';
const TARGET = 'jp-mod-dropTarget';
const EVENTS = ['lm-dragenter', 'lm-dragleave', 'lm-dragover', 'lm-drop'];

/** Attaches notebook cells and files from the file browser that are dropped on the panel. */
export class DropTarget implements IDisposable {
  constructor(
    private readonly _node: HTMLElement,
    private readonly _notebooks: OpenNotebooks,
    private readonly _draft: Draft
  ) {
    EVENTS.forEach(type => _node.addEventListener(type, this));
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    EVENTS.forEach(type => this._node.removeEventListener(type, this));
  }

  /** Called by the page for drags over the panel. */
  handleEvent(event: Event): void {
    const drag = event as Drag.Event;
    const { mimeData } = drag;
    if (!mimeData.hasData(CELLS) && !mimeData.hasData(FILES)) {
      return;
    }
    drag.preventDefault();
    drag.stopPropagation();
    this._node.classList.toggle(TARGET, drag.type !== 'lm-drop' && drag.type !== 'lm-dragleave');
    if (drag.type === 'lm-dragover' || drag.type === 'lm-drop') {
      drag.dropAction = 'copy'; // a copy: the original stays
    }
    if (drag.type === 'lm-drop') {
      const cells = (mimeData.getData(CELLS) ?? []) as Cell[];
      const files = (mimeData.getData(FILES) ?? []) as string[];
      this._draft.attach(
        ...this._notebooks.refs(cells).map((ref): Attachment => ({ type: 'cell', ...ref })),
        ...files.map((path): Attachment => ({ type: 'file', path }))
      );
    }
  }

  private _isDisposed = false;
}
