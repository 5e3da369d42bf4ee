import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import { button, guard } from '../review/marks/element';

/** A discreet button in the active cell while it is empty. It takes no space and disappears at the first key. */
export class Offer {
  /**
   * @param _isWanted - Whether it may be shown at a cell.
   * @param open - The action of the button.
   */
  constructor(
    private readonly _isWanted: (cell: Cell) => boolean,
    open: () => void,
    trans: TranslationBundle
  ) {
    this._button = guard(
      button(trans.__('Generate…'), 'jp-Agent-offer', open, {
        title: trans.__('Ask the assistant to write this cell')
      })
    );
  }

  /** Show it in this cell, and in no other. */
  show(cell: Cell | null): void {
    const { _cell: former } = this;
    if (former && !former.isDisposed) {
      former.model.contentChanged.disconnect(this._update, this);
    }
    this._cell = cell;
    cell?.model.contentChanged.connect(this._update, this);
    void cell?.ready.then(() => this._update());
    this._update();
  }

  private _update(): void {
    const { _cell: cell } = this;
    const editor = cell && !cell.isDisposed ? cell.editorWidget?.node : null;
    const isEmpty = cell && !cell.isDisposed && cell.model.sharedModel.getSource() === '';
    if (editor && isEmpty && this._isWanted(cell)) {
      editor.append(this._button);
    } else {
      this._button.remove();
    }
  }

  private readonly _button: HTMLButtonElement;
  private _cell: Cell | null = null;
}
