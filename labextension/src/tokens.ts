import { Token } from '@lumino/coreutils';
import type { Conflicts } from './bridge/conflicts';
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

/** The link between the server and the notebooks that are open on this page. */
export interface ITabBridge {
  /** The id of this page load; turns started with it work in this page's notebooks. */
  readonly client: string;
  /** Cells of which this page and the file could not both be kept. */
  readonly conflicts: Conflicts;
}

/** Provided by the plugin `jupyter-agent:tab-bridge`. */
export const ITabBridge = new Token<ITabBridge>(
  'jupyter-agent:ITabBridge',
  'The link between the assistant on the server and the notebooks that are open here.'
);
