/**
 * The types on the wire between this extension and the server, with the server's names.
 *
 * The types of the answer itself come from the AI SDK, whose UI message stream format the server uses; only its
 * types are imported, so none of its code is in the bundle.
 */
import type { IOutput } from '@jupyterlab/nbformat';
import type { DynamicToolUIPart, FileUIPart, UIMessage, UIMessageChunk } from 'ai';

/** What the assistant may do without asking. */
export type Mode = 'read' | 'ask' | 'edit' | 'auto';

/** How much a model thinks before it answers. */
export type Effort = 'none' | 'low' | 'medium' | 'high' | 'max';

/** How much of notebooks models may see. */
export type Share = 'all' | 'no-outputs' | 'code-only';

/** Tokens of a turn, added up. `input_tokens` excludes tokens read from or written to the cache. */
export interface IUsage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens?: number;
  /** In the currency of the configured prices; null if a price is unknown. */
  cost?: number | null;
}

/** One side of a change: a cell as it was. */
export interface ICellState {
  type: 'code' | 'markdown' | 'raw';
  source: string;
  index: number;
  outputs: IOutput[];
  execution_count: number | null;
  /** If the change removed or moved the cell: ids of the cells that were above and below it, nearest first. */
  above?: string[];
  below?: string[];
}

/** The effect of one call on one cell. */
export interface IChange {
  notebook: string;
  cell_id: string;
  call_id: string | null;
  kind: 'insert' | 'update' | 'delete' | 'move' | 'outputs';
  before: ICellState | null;
  after: ICellState | null;
  reviewed: boolean;
  undone: boolean;
  conflict: string | null;
}

/** A change that is neither kept nor undone. */
export interface IPendingChange extends IChange {
  turn_id: string;
}

/** A cell, by its notebook. */
export interface ICellRef {
  notebook: string;
  cell_id: string;
}

/** A question whose answer a turn waits for. */
export interface IApproval {
  id: string;
  /** Shared by approvals that are one question, such as an edit and its run. */
  group?: string;
  call_id: string;
  tool: string;
  input: Record<string, unknown>;
  notebook: string | null;
  cell_id: string | null;
  /** The exact code that would run. */
  code?: string | null;
  /** The code by cell, if several would run. */
  cells?: { cell_id: string; code: string }[];
  /** The proposed change, as a unified diff. */
  diff?: string | null;
  /** The same by cell, if several would change; without an id for a new one. */
  edits?: ICellDiff[];
  /** The type of the cell after the edit, or of the cell to be deleted. */
  cell_type?: 'code' | 'markdown' | 'raw';
  /** The name of the only kernel to which the answer applies. */
  kernel?: string;
  /** Addresses on other servers that a page loads as soon as it shows the result. */
  loads?: string[];
  /** Systems, such as Dask, on which the code may start a job. */
  clusters?: string[];
  /** The MCP server that would get the input. */
  server?: string;
  /** The name of the tool there. */
  server_tool?: string;
  expires: string;
}

/** The proposed change of one of several cells. */
export interface ICellDiff {
  cell_id: string | null;
  cell_type: 'code' | 'markdown' | 'raw';
  diff: string;
}

/** A step of a plan. */
export type IPlanStep = { text: string; state?: 'open' | 'doing' | 'done' };

/** A person's answer to an approval. */
export interface IApprovalAnswer {
  id: string;
  approved: boolean;
  reason?: string;
  /** The scope of an approval beyond this call: the tool in the conversation, or edits in the turn. */
  remember?: 'conversation' | 'turn';
}

/** Information for the reader, at its place in the answer. */
export interface INotice {
  kind: string;
  text: string;
  approval?: IApproval;
  /** The model that answers from here on, and the one it replaces. */
  model?: string;
  instead_of?: string;
  explanation?: string;
  /** Approvals that were answered, so no tab asks for them any more. */
  approvals?: { id: string; approved: boolean; reason?: string }[];
  /** The reason of a retry (with the seconds to wait), of a failed turn, or of another model (also `refusal`). */
  reason?: string;
  seconds?: number;
  /** When it is retried, if the wait is long; for a failed turn, when to ask again. */
  until?: string;
  /** Why the turn failed, or another model answers, in the server's words. */
  error?: string;
  /** The message of the model service or the network. */
  said?: string;
  /** The limit that was reached. */
  limit?: ILimit['limit'];
  /** How a long conversation was shortened. */
  how?: 'shortened' | 'summarised';
  /** Who gets which data, and how many earlier turns are withheld from the model. */
  host?: string;
  share?: Share;
  turns?: number;
  /** Tokens of a question, and of the model's context window. */
  needed?: number;
  window?: number;
  /** The notebook that others changed during the turn. */
  notebook?: string;
  /** Instruction files that were not followed. */
  sources?: string[];
}

/** The limit that ended an answer early. */
export interface ILimit {
  turnId: string;
  limit: 'steps' | 'tokens' | 'cost' | 'month';
}

/** The result of running a cell, or code without a cell. */
export interface IRunOutput {
  text: string;
  status: string;
  run_id: string;
  cell_id: string | null;
  execution_count: number | null;
  outputs: IOutput[];
  seconds?: number;
}

/** A run that ended after its turn. */
export interface IEndedRun {
  run_id: string;
  notebook: string;
  cell_id: string | null;
  status: string;
  seconds: number;
}

/** An attachment of a message. */
export type Attachment =
  | { type: 'cell'; notebook: string; cell_id: string }
  | { type: 'selection'; notebook: string; cell_id: string; text: string }
  | { type: 'file'; path: string }
  | { type: 'variable'; name: string };

/** A picture or another file attached to a question, as a data URL. */
export type IPicture = FileUIPart;

/** Metadata of a message. */
export interface IMessageMetadata {
  conversationId?: string;
  turnId?: string;
  model?: string;
  notebook?: string | null;
  usage?: IUsage;
  /** Of the last step alone: the model's input and output. */
  stepUsage?: IUsage;
  stopReason?: string;
  steps?: number;
  stepLimitReached?: boolean;
  budgetReached?: boolean;
  /** Duration of the turn. */
  seconds?: number;
  /** Attachments of a user's message. */
  context?: Attachment[];
  /** The run whose end started this turn, as the user had requested. */
  ended?: IEndedRun;
}

export type AgentData = {
  changes: { toolCallId: string; notebook: string; changes: IChange[] };
  notice: INotice;
  continue: ILimit;
};

/** A message of a conversation, and a chunk of a streamed one. */
export type AgentMessage = UIMessage<IMessageMetadata, AgentData>;
export type AgentChunk = UIMessageChunk<IMessageMetadata, AgentData>;
export type AgentPart = AgentMessage['parts'][number];
export type CallPart = DynamicToolUIPart;

/** The state of a turn. */
export type TurnState = 'running' | 'waiting' | 'done' | 'stopped' | 'failed' | 'interrupted';

/** A conversation in the list of conversations. */
export interface IConversationSummary {
  id: string;
  title: string | null;
  notebook: string | null;
  model: string | null;
  updated: string;
  state: TurnState | null;
  usage: IUsage | null;
  /** The text around the match, if the match is not in the title. */
  match?: string | null;
}

/** A conversation with its messages. */
export interface IConversation extends IConversationSummary {
  messages: AgentMessage[];
}

/** A request sent to a model. */
export interface ISentRequest {
  host: string;
  made: string;
  characters: number;
  model: string;
  system: unknown;
  tools: { name?: string }[];
  messages: { role: string; content: unknown }[];
}

/** The models that can answer. */
export interface IModels {
  default: string;
  fallback?: string | null;
  providers: { name: string; models: string[]; credentials: boolean }[];
  /** Size of the context window in tokens by `provider:model`, where known. */
  windows?: Record<string, number>;
  /** Whether a model supports images by `provider:model`, where known. */
  images?: Record<string, boolean>;
  /** Whether a model reads PDF files by `provider:model`, where known. */
  documents?: Record<string, boolean>;
}

/** A cell whose outputs no longer follow from the code above it. */
export interface IStaleCell {
  cell_id: string;
  /** A sentence that names cells by their ids in backticks. */
  why: string;
}

/** The last verification of a notebook. */
export interface IVerified {
  ok: boolean;
  at: string;
  kernel: string;
  /** Versions of the packages that the cells import. */
  packages: Record<string, string>;
  /** SHA-256 of all code. */
  hash: string;
  cells: number;
  same: number;
  /** Whether the code has changed since. */
  outdated: boolean;
  /** Whether it is recorded in the notebook. */
  recorded: boolean;
  /** Whether this server did it; otherwise the notebook only claims it. */
  here: boolean;
}

/** The result of undoing a turn. */
export interface IUndone {
  undone: IChange[];
  conflicts: { notebook: string; cell_id: string; reason: string; why: string }[];
}
