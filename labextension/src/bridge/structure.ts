import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type * as Y from 'yjs';
import { ENTERING, ofType, onTheWire } from './pageCells';
import type { PageCells, SharedCell } from './pageCells';

/** A structural edit requested by the server. */
export interface IEdit {
  /** Identifies the edit: if it is requested again over another connection, it is not repeated. */
  key: string;
  /** Shared by the edits of one server operation; the server undoes all of them or none. */
  operation: string;
  kind: 'remove' | 'move' | 'retype';
  /** The id of the cell. */
  cell: string;
  /** For `remove`: the cell's text as the server knows it. */
  source?: string;
  /** For `move`: the index of the cell afterwards. */
  index?: number;
  /** For `retype`: the new type. */
  type?: string;
}

/** Why nothing was done: the cell is gone, is being typed in, has other text, is running, or the edit was withdrawn. */
type RefusalReason = 'gone' | 'typing' | 'changed' | 'running' | 'withdrawn';

interface IDone {
  refused?: RefusalReason;
  /** The operation that the edit was part of. */
  operation?: string;
  undo?: IUndo;
}

interface IUndo {
  /** The cell that is replaced by a copy; if unset, the user's cell is not affected. */
  replaces?: string;
  act: () => void;
}

/** Number of edits whose outcome is remembered; at most one operation is in progress when a connection is lost. */
const REMEMBERED = 200;

/**
 * Removes, moves and retypes cells for the server, each within one tick of this page, so that no key falls in between.
 *
 * Yjs cannot move, so a moved or retyped cell is replaced by a copy. Text typed into the original at that moment would
 * be lost with it; within one tick no one can type.
 */
export class StructuralEdits implements IDisposable {
  constructor(private readonly _cells: PageCells) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._putOff = [];
    Signal.clearData(this);
  }

  /** Carry out the edit unless that was done already. Returns the fields that the answer has besides the situation. */
  carryOut(edit: IEdit): { refused?: RefusalReason } {
    let done = this._done.get(edit.key);
    if (!done) {
      this._takeBackDue(); // otherwise it would undo this one as well
      this._forgetUndos(edit.operation);
      done = { ...this._cells.preservingPlace(() => this._do(edit)), operation: edit.operation };
      this._remember(edit.key, done);
    }
    return done.refused ? { refused: done.refused } : {};
  }

  /**
   * Undo these edits, last first, and never carry out those that have not been done.
   *
   * An undo that would replace the cell the user is typing in waits until they have left it.
   */
  takeBack(keys: readonly string[]): void {
    for (const key of [...keys].reverse()) {
      const undo = this._done.get(key)?.undo;
      this._remember(key, { refused: 'withdrawn' });
      if (undo) {
        this._putOff.push(undo);
      }
    }
    this._takeBackDue();
    if (this._putOff.length) {
      setTimeout(() => this._takeBackDue(), ENTERING); // the key may have moved the user elsewhere
    }
    for (const view of this._putOff.length ? this._cells.views() : []) {
      view.activeCellChanged.connect(this._onLeaving, this);
      view.stateChanged.connect(this._onLeaving, this);
    }
  }

  /** Perform the undos that had to wait, for cells that the user has left. */
  private _takeBackDue(): void {
    const due = this._putOff.filter(
      ({ replaces }) => !replaces || !this._cells.isTypedIn(replaces)
    );
    this._putOff = this._putOff.filter(undo => !due.includes(undo));
    for (const { act } of due) {
      this._cells.preservingPlace(act);
    }
  }

  /** Deferred: JupyterLab is in the middle of its own change. */
  private _onLeaving(): void {
    if (this._putOff.length) {
      setTimeout(() => this._takeBackDue());
    }
  }

  private _do(edit: IEdit): IDone {
    const at = this._cells.index(edit.cell);
    if (at < 0) {
      return { refused: 'gone' };
    }
    switch (edit.kind) {
      case 'remove':
        return this._remove(at, edit);
      case 'move':
        return this._move(at, edit);
      case 'retype':
        return this._retype(at, edit);
      default:
        throw new Error(`This page does not know the edit "${String(edit.kind)}".`);
    }
  }

  private _remove(at: number, { cell: id, source }: IEdit): IDone {
    const cell = this._cells.at(at);
    if (this._cells.isTypedIn(id)) {
      return { refused: 'typing' };
    }
    if (onTheWire(cell) !== source) {
      return { refused: 'changed' };
    }
    const copy = cell.clone();
    const below = this._cells.idAt(at + 1);
    this._cells.remove(at);
    return { undo: { act: () => this._cells.insert(this._cells.above(below), copy) } };
  }

  private _retype(at: number, { cell: id, type }: IEdit): IDone {
    if (this._cells.isTypedIn(id)) {
      return { refused: 'typing' };
    }
    if (this._cells.isTheUsersRun(id)) {
      return { refused: 'running' };
    }
    const cell = this._cells.at(at);
    const former = cell.clone();
    this._cells.replace(at, ofType(cell, String(type)), at);
    return { undo: { replaces: id, act: () => this._restore(id, former) } };
  }

  private _move(at: number, { cell: id, index = 0 }: IEdit): IDone {
    const below = this._cells.idAt(at + 1);
    const refused = this._moveTo(id, Math.min(index, this._cells.length - 1));
    const moveBack = (): void => {
      const now = this._cells.index(id);
      const there = this._cells.above(below);
      if (now >= 0) {
        this._moveTo(id, there - (there > now ? 1 : 0), true);
      }
    };
    return refused ? { refused } : { undo: { act: moveBack } };
  }

  /** The user's cell stays in place in the document, and its neighbours move around it. */
  private _moveTo(id: string, index: number, atAnyPrice = false): RefusalReason | undefined {
    const at = this._cells.index(id);
    const [first, last] = at < index ? [at + 1, index + 1] : [index, at];
    const neighbours = this._cells.ids.slice(first, last);
    const around = this._cells.isActive(id) && !neighbours.some(one => this._cells.isTypedIn(one));
    const copied = around ? neighbours : at === index ? [] : [id];
    if (!atAnyPrice && copied.some(one => this._cells.isTypedIn(one))) {
      return 'typing';
    }
    if (!atAnyPrice && copied.some(one => this._cells.isTheUsersRun(one))) {
      return 'running';
    }
    for (const one of at < index ? copied : copied.reverse()) {
      const from = this._cells.index(one);
      const to = around ? this._cells.index(id) : index;
      this._cells.replace(from, this._cells.at(from).clone(), from < to ? to + 1 : to);
    }
    return undefined;
  }

  /** Restore the cell's former type, with its current text. */
  private _restore(id: string, former: SharedCell): void {
    const at = this._cells.index(id);
    if (at < 0) {
      return;
    }
    const text = (this._cells.at(at).get('source') as Y.Text).toJSON();
    this._cells.replace(at, former, at);
    this._cells.write(at, text);
  }

  private _remember(key: string, done: IDone): void {
    this._done.delete(key);
    this._done.set(key, done);
    if (this._done.size > REMEMBERED) {
      this._done.delete([...this._done.keys()][0]);
    }
  }

  /** Operations are sequential, and undos of one come before the next. */
  private _forgetUndos(operation: string): void {
    for (const done of this._done.values()) {
      if (done.operation !== operation) {
        delete done.undo;
      }
    }
  }

  private readonly _done = new Map<string, IDone>();
  private _isDisposed = false;
  private _putOff: IUndo[] = [];
}
