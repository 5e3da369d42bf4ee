import { Clipboard } from '@jupyterlab/apputils';
import type { ICell, MultilineString } from '@jupyterlab/nbformat';
import type { IDisposable } from '@lumino/disposable';
import type { Attachment } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';

const CELLS = 'application/vnd.jupyter.cells';
/** Events after which the system's clipboard may be newer than JupyterLab's own. */
const EVENTS = ['copy', 'cut', 'blur'];

/** Cells copied in JupyterLab: those of open notebooks are attached, the source of others is pasted as text. */
export interface IPasted {
  readonly attachments: readonly Attachment[];
  readonly text: string;
}

/** Finds the cells that a user pastes: JupyterLab has its own clipboard for them, or writes them as JSON. */
export class CopiedCells implements IDisposable {
  constructor(private readonly _notebooks: OpenNotebooks) {
    EVENTS.forEach(type => window.addEventListener(type, this));
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    EVENTS.forEach(type => window.removeEventListener(type, this));
  }

  /** Called by the page when the user copies a text, or leaves the page, perhaps to copy one elsewhere. */
  handleEvent(): void {
    this._older = inLab();
  }

  /** The pasted cells, or null if the text of the system's clipboard is pasted. */
  pasted(text: string): IPasted | null {
    const own = inLab();
    const cells = own && own !== this._older ? own : cellsIn(text);
    if (!cells) {
      return null;
    }
    const open = cells.map(({ id }) => this._notebooks.find(id as string | undefined));
    return {
      attachments: open.flatMap((ref): Attachment[] => (ref ? [{ type: 'cell', ...ref }] : [])),
      text: cells
        .filter((_, index) => !open[index])
        .map(({ source }) => sourceOf(source))
        .join('\n\n')
    };
  }

  private _older: ICell[] | null = null;
  private _isDisposed = false;
}

/** The content of JupyterLab's own clipboard; a new object after each copy. */
function inLab(): ICell[] | null {
  const clipboard = Clipboard.getInstance();
  return clipboard.hasData(CELLS) ? (clipboard.getData(CELLS) as ICell[]) : null;
}

/** Cells as JupyterLab writes them to the system's clipboard, if its settings say so. */
function cellsIn(text: string): ICell[] | null {
  if (!text.startsWith('[{')) {
    return null;
  }
  try {
    const found = JSON.parse(text) as Partial<ICell>[];
    return found.every(cell => cell.cell_type && cell.source !== undefined)
      ? (found as ICell[])
      : null;
  } catch {
    return null; // other text that starts like a list
  }
}

function sourceOf(source: MultilineString): string {
  return typeof source === 'string' ? source : source.join('');
}
