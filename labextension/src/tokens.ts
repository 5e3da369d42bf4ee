import type * as nbformat from '@jupyterlab/nbformat';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { IRequest } from './api/request';

/** The assistant of this page, for other extensions. */
export interface IAssistant {
  /** Ask about the notebook in front, as the user would; resolves when the turn has ended. */
  ask(text: string, options?: Partial<IRequest>): Promise<void>;
  /** Begin a new conversation. */
  newConversation(): void;
}

/** Provided by the plugin `jupyter-agent:plugin`. */
export const IAssistant = new Token<IAssistant>(
  'jupyter-agent:IAssistant',
  'The assistant of this page: ask it about the notebook in front.'
);

/** A cell as a file has it, with an id also where its format has none. */
export interface IMergeCell {
  id: string;
  cell_type: string;
  source: string;
  metadata: ReadonlyPartialJSONObject;
  outputs?: nbformat.IOutput[];
  execution_count?: number | null;
  attachments?: nbformat.IAttachments;
}

/** A cell that was changed in the page and in the file in ways that cannot both be in it. The page's is kept. */
export interface ICellConflict {
  cell: string;
  /** Its text in the page; null where it was deleted there. */
  mine: string | null;
  /** The cell in the file; null where it was deleted there. */
  theirs: IMergeCell | null;
}

/** The link between the server and the notebooks that are open on this page. */
export interface ITabBridge {
  /** The id of this page load; turns started with it work in this page's notebooks. */
  readonly client: string;
  /** Emitted with the cells of a notebook of which page and file could not both be kept. */
  readonly conflicted: ISignal<ITabBridge, { notebook: string; cells: readonly ICellConflict[] }>;
  /** Emitted with the former and the new path of an open notebook. */
  readonly renamed: ISignal<ITabBridge, { former: string; notebook: string }>;
}

/** Provided by the plugin `jupyter-agent:tab-bridge`. */
export const ITabBridge = new Token<ITabBridge>(
  'jupyter-agent:ITabBridge',
  'The link between the assistant on the server and the notebooks that are open here.'
);
