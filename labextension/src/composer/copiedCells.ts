import { Clipboard } from '@jupyterlab/apputils';
import type { ICell, MultilineString } from '@jupyterlab/nbformat';
import type { IDisposable } from '@lumino/disposable';
import type { Attachment } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';

const CELLS = 'application/vnd.jupyter.cells';
/** After these the system's clipboard may hold something newer than JupyterLab's own. */
const EVENTS = ['copy', 'cut', 'blur'];

/** Cells that were copied in JupyterLab: those that are open are attached, the source of the others is text. */
export interface IPasted {
  readonly attachments: readonly Attachment[];
  readonly text: string;
}

/** Finds the cells that a user pastes: JupyterLab has a clipboard of its own for them, or writes them as JSON. */
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

  /** Called by the page when the user copies a text, or goes to where one can be copied. */
  handleEvent(): void {
    this._older = inLab();
  }

  /** The cells that are pasted, or null where it is the text of the system's clipboard that is. */
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

/** What JupyterLab's own clipboard holds; another object after each copying. */
function inLab(): ICell[] | null {
  const clipboard = Clipboard.getInstance();
  return clipboard.hasData(CELLS) ? (clipboard.getData(CELLS) as ICell[]) : null;
}

/** Cells as JupyterLab writes them into the system's clipboard, where its settings say so. */
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
    return null; // something else that begins like a list
  }
}

function sourceOf(source: MultilineString): string {
  return typeof source === 'string' ? source : source.join('');
}
