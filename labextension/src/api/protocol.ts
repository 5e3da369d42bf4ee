/**
 * The types on the wire between this extension and the server, with the server's names.
 *
 * The types of answers come from the server's OpenAPI description, by `dev/schemas.mjs`; those of the stream from the
 * AI SDK, whose UI message stream format the server uses. Only types are imported, so none of its code is in the bundle.
 */
import type { IOutput } from '@jupyterlab/nbformat';
import type { DynamicToolUIPart, FileUIPart, UIMessage, UIMessageChunk } from 'ai';
import type { components } from './schemas';

type Schemas = components['schemas'];

/** What the assistant may do without asking. */
export type Mode = Schemas['PolicyAnswer']['max_mode'];

/** How much of notebooks models may see. */
export type Share = Schemas['StatusAnswer']['share'];

/** How much a model thinks before it answers. */
export type Effort = NonNullable<Schemas['ChatBody']['effort']>;

/** Tokens of a turn, added up. `input_tokens` excludes tokens read from or written to the cache. */
export type IUsage = Schemas['UsageNumbers'];

/** One side of a change: a cell as it was. */
export type ICellState = Omit<Schemas['StateAnswer'], 'metadata' | 'outputs'> & {
  outputs: IOutput[];
};

/** The effect of one call on one cell. */
export type IChange = Omit<Schemas['ChangeAnswer'], 'before' | 'after'> & {
  before: ICellState | null;
  after: ICellState | null;
};

/** A change that is neither kept nor undone. */
export type IPendingChange = IChange & Pick<Schemas['PendingAnswer'], 'turn_id'>;

/** A cell, by its notebook. */
export type ICellRef = Pick<IChange, 'notebook' | 'cell_id'>;

/** A question whose answer a turn waits for. */
export type IApproval = Schemas['PendingApproval'];

/** The proposed change of one of several cells. */
export type ICellDiff = Schemas['CellDiffAnswer'];

/** A person's answer to an approval. */
export type IApprovalAnswer = Schemas['ApprovalReply'];

/** A step of a plan. */
export type IPlanStep = { text: string; state?: 'open' | 'doing' | 'done' };

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
export type IEndedRun = Pick<
  Schemas['ListedRun'],
  'run_id' | 'notebook' | 'cell_id' | 'status' | 'seconds'
>;

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

/** A conversation in the list of conversations. */
export type IConversationSummary = Schemas['FoundConversation'];

/** The state of a turn. */
export type TurnState = NonNullable<IConversationSummary['state']>;

/** A conversation with its messages. */
export type IConversation = Omit<Schemas['ConversationAnswer'], 'messages'> & {
  messages: AgentMessage[];
};

/** What is shown of a conversation; one that was not stored yet has neither title nor usage. */
export type IStoredConversation = Pick<IConversation, 'messages' | 'state'> & {
  title: string | null;
  usage: IUsage | null;
};

/** A request sent to a model. */
export type ISentRequest = Schemas['RequestAnswer'] & {
  model: string;
  system: unknown;
  tools: { name?: string }[];
  messages: { role: string; content: unknown }[];
};

/** The models that can answer. */
export type IModels = Schemas['ModelsAnswer'];

/** The last verification of a notebook. */
export type IVerified = Schemas['VerifiedAnswer'];

/** The result of undoing a turn. */
export type IUndone = Omit<Schemas['UndoneAnswer'], 'undone'> & { undone: IChange[] };

/** Instructions in a file of the project, and the user's decision about them. */
export type IProjectInstructions = Schemas['InstructionFile'];

/** Instructions for every answer: from a file, or `settings` for the user's own. */
export type IInstructions = Pick<IProjectInstructions, 'source' | 'characters' | 'cut'>;

/** A cell whose outputs no longer follow from the code above it. */
export interface IStaleCell {
  cell_id: string;
  /** A sentence that names cells by their ids in backticks. */
  why: string;
}
