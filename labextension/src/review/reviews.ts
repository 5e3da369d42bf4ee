import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { Announcements } from '../api/announcements';
import type { AgentClient } from '../api/client';
import type { ICellRef, IUndone } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Assistant } from '../chat/assistant';
import type { ConversationEvent } from '../chat/conversationEvents';
import { Store } from '../store';
import type { IPendingCell } from './pending';
import { byTurn, pendingCells } from './pending';

/** The changes to review in one notebook. */
export interface IPending {
  readonly cells: readonly IPendingCell[];
  /** The turns that changed them, oldest first. */
  readonly turns: readonly string[];
}

const NOTHING: IPending = { cells: [], turns: [] };

/**
 * The changes to review in the notebooks open here: read from the server when a notebook is opened, when the assistant
 * changes something, and when anyone keeps or undoes changes.
 */
export class Reviews extends Store<ReadonlyMap<string, IPending>> implements IDisposable {
  constructor(
    private readonly _client: AgentClient,
    private readonly _notebooks: OpenNotebooks,
    private readonly _assistant: Assistant,
    announcements: Announcements
  ) {
    super(new Map());
    _notebooks.opened.connect((_, path) => void this._read(path), this);
    _assistant.happened.connect(this._onHappened, this);
    _client.changesReviewed.connect(this._readAll, this);
    announcements.received.connect(this._readAll, this);
    window.addEventListener('focus', this._readAll); // a disconnected page may have missed announcements
    this._readAll();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    window.removeEventListener('focus', this._readAll);
    Signal.clearData(this);
  }

  of(notebook: string): IPending {
    return this.state.get(notebook) ?? NOTHING;
  }

  /** Whether a turn that changed the cell is still running, so it cannot be undone yet. */
  isRunning({ turns }: IPendingCell): boolean {
    const { conversation } = this._assistant.state;
    const turn = conversation.state.messages.at(-1)?.metadata?.turnId;
    return conversation.busy && turn !== undefined && turns.includes(turn);
  }

  /** Keep the changes to these cells. Raises RequestError, NetworkError. */
  async keep(cells: readonly IPendingCell[]): Promise<void> {
    for (const [turn, refs] of this._byTurn(cells)) {
      await this._client.accept(turn, refs);
      await this._assistant.state.conversation.refreshChanges(turn);
    }
  }

  /** Undo the changes to these cells; returns which were not undone, and why. Raises RequestError, NetworkError. */
  async revert(cells: readonly IPendingCell[]): Promise<IUndone['conflicts']> {
    const conflicts: IUndone['conflicts'] = [];
    for (const [turn, refs] of this._byTurn(cells)) {
      conflicts.push(...(await this._client.undo(turn, refs)).conflicts);
      await this._assistant.state.conversation.refreshChanges(turn);
    }
    return conflicts;
  }

  private _byTurn(cells: readonly IPendingCell[]): [string, ICellRef[]][] {
    const byNotebook = Map.groupBy(cells, ({ notebook }) => notebook);
    return [...byNotebook].flatMap(([notebook, own]) => [...byTurn(own, this.of(notebook).turns)]);
  }

  private _onHappened(_: Assistant, event: ConversationEvent): void {
    if (['opened', 'changesArrived', 'turnStarted', 'turnEnded'].includes(event)) {
      this._readAll();
    }
  }

  private readonly _readAll = (): void => {
    const paths = this._paths;
    const known = [...this.state].filter(([path]) => paths.has(path));
    if (known.length < this.state.size) {
      this.set(new Map(known)); // closed, renamed, or in another conversation
    }
    for (const path of paths) {
      void this._read(path);
    }
  };

  /** One request at a time for each notebook, repeated if something changed during it. */
  private async _read(path: string): Promise<void> {
    if (this._reading.has(path)) {
      this._again.add(path);
      return;
    }
    this._reading.add(path);
    do {
      this._again.delete(path);
      const changes = await this._client.pending(path).catch(() => null);
      if (changes && !this.isDisposed) {
        const turns = [...new Set(changes.map(({ turn_id }) => turn_id))];
        const cells = this._recognised(path, pendingCells(changes));
        this.set(new Map(this.state).set(path, { cells, turns }));
      }
    } while (this._again.has(path));
    this._reading.delete(path);
  }

  /** The cells, each the same object as before if nothing about it has changed. */
  private _recognised(path: string, cells: readonly IPendingCell[]): IPendingCell[] {
    const known = new Map(this.of(path).cells.map(cell => [JSON.stringify(cell), cell]));
    return cells.map(cell => known.get(JSON.stringify(cell)) ?? cell);
  }

  /** The open notebooks and those in which the conversation in front has changes to review. */
  private get _paths(): Set<string> {
    const { messages, changes } = this._assistant.state.conversation.state;
    const waiting = Object.values(changes)
      .flat()
      .filter(({ reviewed, undone }) => !reviewed && !undone);
    const recent = (messages.at(-1)?.parts ?? []).flatMap(part =>
      part.type === 'data-changes' ? part.data.changes : []
    );
    return new Set([
      ...this._notebooks.paths,
      ...[...waiting, ...recent].map(({ notebook }) => notebook)
    ]);
  }

  private readonly _reading = new Set<string>();
  private readonly _again = new Set<string>();
  private _isDisposed = false;
}
