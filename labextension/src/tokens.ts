import type * as nbformat from '@jupyterlab/nbformat';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { IRequest } from './api/request';

/** The assistant of this page, for other extensions. */
export interface IAssistant {
  /** Ask about the notebook in front, as the user would; resolves when the turn has ended. */
  ask(text: string, options?: Partial<IRequest>): Promise<void>;
  /** Start a new conversation. */
  newConversation(): void;
}

/** Provided by the plugin `jupyter-agent:plugin`. */
export const IAssistant = new Token<IAssistant>(
  'jupyter-agent:IAssistant',
  'The assistant of this page: ask it about the notebook in front.'
);

/** A cell as in a file, always with an id, even if the file's format lacks ids. */
export interface IMergeCell {
  id: string;
  cell_type: string;
  source: string;
  metadata: ReadonlyPartialJSONObject;
  outputs?: nbformat.IOutput[];
  execution_count?: number | null;
  attachments?: nbformat.IAttachments;
}

/** A cell whose changes in the page and in the file could not be merged. The page's version is kept. */
export interface ICellConflict {
  cell: string;
  /** Its text in the page; null if it was deleted there. */
  mine: string | null;
  /** The cell in the file; null if it was deleted there. */
  theirs: IMergeCell | null;
}

/** The link between the server and the notebooks open on this page. */
export interface ITabBridge {
  /** The id of this page load; turns started with it work in this page's notebooks. */
  readonly client: string;
  /** Emitted with the cells of a notebook whose versions in page and file could not be merged. */
  readonly conflicted: ISignal<ITabBridge, { notebook: string; cells: readonly ICellConflict[] }>;
  /** Emitted with the old and the new path of an open notebook. */
  readonly renamed: ISignal<ITabBridge, { former: string; notebook: string }>;
}

/** Provided by the plugin `jupyter-agent:tab-bridge`. */
export const ITabBridge = new Token<ITabBridge>(
  'jupyter-agent:ITabBridge',
  'The link between the assistant on the server and the notebooks that are open here.'
);
