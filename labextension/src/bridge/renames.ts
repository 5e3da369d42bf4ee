import type { Contents } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { Attachment } from '../api/protocol';
import type { ITabBridge } from '../tokens';

/** The path of a file after a rename; that of another file stays the same. */
export type Move = (path: string) => string;

/** The renames that this page learns of: those of files and folders by itself, and of all notebooks open here. */
export class Renames {
  constructor(
    bridge: Pick<ITabBridge, 'renamed'>,
    contents: Pick<Contents.IManager, 'fileChanged'>
  ) {
    bridge.renamed.connect((_, { former, notebook }) => this._tell(former, notebook));
    contents.fileChanged.connect((_, { type, oldValue, newValue }) => {
      if (type === 'rename' && oldValue?.path && newValue?.path) {
        this._tell(oldValue.path, newValue.path);
      }
    });
  }

  /** Emitted once or more for each rename. Whoever keeps a path past this moment replaces it. */
  get moved(): ISignal<this, Move> {
    return this._moved;
  }

  private _tell(former: string, now: string): void {
    this._moved.emit(path =>
      path === former || path.startsWith(`${former}/`) ? now + path.slice(former.length) : path
    );
  }

  private readonly _moved = new Signal<this, Move>(this);
}

/** What is about notebooks and files, after a rename. */
export function moveAbout<About extends { notebook?: string | null; context?: Attachment[] }>(
  about: About,
  move: Move
): About {
  const { notebook, context } = about;
  return {
    ...about,
    ...(notebook && { notebook: move(notebook) }),
    ...(context && { context: context.map(one => moveAttachment(one, move)) })
  };
}

export function moveAttachment(attachment: Attachment, move: Move): Attachment {
  switch (attachment.type) {
    case 'cell':
    case 'selection':
      return { ...attachment, notebook: move(attachment.notebook) };
    case 'file':
      return { ...attachment, path: move(attachment.path) };
    case 'variable':
      return attachment;
  }
}

/** What is kept by path, after a rename. A file that was moved onto another takes its place. */
export function moveKeys<Value>(
  byPath: Readonly<Record<string, Value>>,
  move: Move
): Record<string, Value> {
  const paths = Object.keys(byPath);
  const stayed = paths.filter(path => move(path) === path);
  const moved = paths.filter(path => move(path) !== path);
  return Object.fromEntries([...stayed, ...moved].map(path => [move(path), byPath[path]]));
}
