import type {
  AgentChunk,
  AgentMessage,
  AgentPart,
  CallPart,
  IApproval,
  ILimit,
  IMessageMetadata,
  INotice
} from '../api/protocol';
import { partialObject } from './partialJson';

type Chunk<Type extends AgentChunk['type']> = Extract<AgentChunk, { type: Type }>;

/** An answer without any parts yet. */
export function emptyAnswer(id: string, metadata?: IMessageMetadata): AgentMessage {
  return { id, role: 'assistant', metadata, parts: [] };
}

/** The messages when the stream of an answer starts, or is replayed from its start. */
export function withStart(
  messages: readonly AgentMessage[],
  chunk: Chunk<'start'>
): readonly AgentMessage[] {
  const answer = advance(emptyAnswer(''), chunk);
  const known = messages.findIndex(message => message.id === answer.id);
  return known < 0 ? [...messages, answer] : messages.with(known, answer);
}

/**
 * The message after a chunk of its stream. Pure: parts that the chunk does not touch stay the same objects.
 *
 * A replayed stream starts with `start` and so rebuilds the message. Blocks of text never overlap within our streams,
 * so a delta belongs to the open block.
 */
export function advance(message: AgentMessage, chunk: AgentChunk): AgentMessage {
  switch (chunk.type) {
    case 'start':
      return emptyAnswer(chunk.messageId ?? message.id, chunk.messageMetadata);
    case 'start-step':
      return withPart(message, { type: 'step-start' });
    case 'text-start':
      return withPart(message, { type: 'text', text: '', state: 'streaming' });
    case 'reasoning-start':
      return withPart(message, { type: 'reasoning', id: chunk.id, text: '', state: 'streaming' });
    case 'text-delta':
      return grow(message, 'text', chunk.delta);
    case 'reasoning-delta':
      return grow(message, 'reasoning', chunk.delta);
    case 'text-end':
      return close(message, 'text');
    case 'reasoning-end':
      return close(message, 'reasoning');
    case 'tool-input-start':
    case 'tool-input-delta':
    case 'tool-input-available':
    case 'tool-input-error':
      return withCall(message, chunk.toolCallId, call => input(call, chunk));
    case 'tool-approval-request':
    case 'tool-output-available':
    case 'tool-output-error':
    case 'tool-output-denied':
      return withCall(message, chunk.toolCallId, call => call && output(call, chunk));
    case 'message-metadata':
    case 'finish':
      return { ...message, metadata: { ...message.metadata, ...chunk.messageMetadata } };
    case 'data-changes':
    case 'data-continue':
      return withPart(message, chunk);
    case 'data-notice':
      return withPart(withAnswers(message, chunk.data.approvals ?? []), chunk);
    default:
      return message;
  }
}

/** Whether a chunk says how the turn ended; it is the last one then. */
export function isEnd({ type }: AgentChunk): boolean {
  return type === 'finish' || type === 'abort' || type === 'error';
}

/** The unanswered questions in a message. */
export function pendingApprovals(message: AgentMessage | undefined): IApproval[] {
  const waiting = new Set<string>();
  for (const part of message?.parts ?? []) {
    if (part.type === 'dynamic-tool' && part.state === 'approval-requested') {
      waiting.add(part.approval.id);
    }
  }
  return (message?.parts ?? []).flatMap(part => {
    const approval = part.type === 'data-notice' ? part.data.approval : undefined;
    return approval && waiting.has(approval.id) ? [approval] : [];
  });
}

/** The notice of a pending retry: nothing has arrived since the request failed. */
export function retryOf({ parts }: AgentMessage): INotice | null {
  const last = parts.findLast(({ type }) => type !== 'step-start');
  return last?.type === 'data-notice' && last.data.kind === 'retrying' ? last.data : null;
}

/** The messages with the duration of their turn, which started at `start` ms since the epoch; 0 if unknown. */
export function withDuration(messages: readonly AgentMessage[], start: number): AgentMessage[] {
  const seconds = start ? (Date.now() - start) / 1000 : undefined;
  return messages.map(message => ({ ...message, metadata: { ...message.metadata, seconds } }));
}

/** The limit that ended an answer, if one did. */
export function limitOf({ parts, metadata = {} }: AgentMessage): ILimit | null {
  const last = parts.at(-1);
  if (last?.type === 'data-continue') {
    return last.data;
  }
  const { turnId = '', stepLimitReached, budgetReached } = metadata; // stored by an earlier version
  return stepLimitReached || budgetReached
    ? { turnId, limit: stepLimitReached ? 'steps' : 'tokens' }
    : null;
}

/** The message after a person has answered questions, here or in another tab, until their calls have results. */
export function withAnswers(
  message: AgentMessage,
  answers: readonly { id: string; approved: boolean }[]
): AgentMessage {
  if (!answers.length) {
    return message;
  }
  const parts = message.parts.map((part): AgentPart => {
    if (part.type !== 'dynamic-tool' || part.state !== 'approval-requested') {
      return part;
    }
    const answer = answers.find(({ id }) => id === part.approval.id);
    const approval = answer && { id: answer.id, approved: answer.approved };
    return approval ? { ...part, state: 'approval-responded', approval } : part;
  });
  return { ...message, parts };
}

function withPart(message: AgentMessage, part: AgentPart): AgentMessage {
  return { ...message, parts: [...message.parts, part] };
}

function withCall(
  message: AgentMessage,
  id: string,
  change: (call: CallPart | undefined) => CallPart | undefined
): AgentMessage {
  const index = message.parts.findLastIndex(
    part => part.type === 'dynamic-tool' && part.toolCallId === id
  );
  const call = change(message.parts[index] as CallPart | undefined);
  if (!call) {
    return message;
  }
  return index < 0
    ? withPart(message, call)
    : { ...message, parts: message.parts.with(index, call) };
}

function grow(message: AgentMessage, type: 'text' | 'reasoning', delta: string): AgentMessage {
  return withOpen(message, type, part => ({ ...part, text: part.text + delta }));
}

function close(message: AgentMessage, type: 'text' | 'reasoning'): AgentMessage {
  return withOpen(message, type, part => ({ ...part, state: 'done' }));
}

type Block = Extract<AgentPart, { type: 'text' | 'reasoning' }>;

function withOpen(
  message: AgentMessage,
  type: Block['type'],
  change: (part: Block) => Block
): AgentMessage {
  const index = message.parts.findLastIndex(
    part => part.type === type && part.state === 'streaming'
  );
  return index < 0
    ? message
    : { ...message, parts: message.parts.with(index, change(message.parts[index] as Block)) };
}

function input(
  call: CallPart | undefined,
  chunk: Chunk<
    'tool-input-start' | 'tool-input-delta' | 'tool-input-available' | 'tool-input-error'
  >
): CallPart | undefined {
  const { toolCallId } = chunk;
  switch (chunk.type) {
    case 'tool-input-start':
      return {
        type: 'dynamic-tool',
        toolName: chunk.toolName,
        toolCallId,
        state: 'input-streaming',
        input: undefined
      };
    case 'tool-input-delta': {
      if (call?.state !== 'input-streaming') {
        return undefined;
      }
      const rawInput = (call.rawInput ?? '') + chunk.inputTextDelta;
      return { ...call, rawInput, input: partialObject(rawInput) };
    }
    case 'tool-input-available':
      return {
        type: 'dynamic-tool',
        toolName: chunk.toolName,
        toolCallId,
        state: 'input-available',
        input: chunk.input
      };
    case 'tool-input-error':
      return {
        type: 'dynamic-tool',
        toolName: chunk.toolName,
        toolCallId,
        state: 'output-error',
        input: chunk.input,
        errorText: chunk.errorText
      };
  }
}

function output(
  { type, toolName, toolCallId, input, approval }: CallPart,
  chunk: Chunk<
    'tool-approval-request' | 'tool-output-available' | 'tool-output-error' | 'tool-output-denied'
  >
): CallPart {
  const call = { type, toolName, toolCallId, input, ...(approval && { approval }) };
  switch (chunk.type) {
    case 'tool-approval-request':
      return { ...call, state: 'approval-requested', approval: { id: chunk.approvalId } };
    case 'tool-output-available': {
      const { output, preliminary } = chunk;
      return { ...call, state: 'output-available', output, preliminary } as CallPart;
    }
    case 'tool-output-error':
      return { ...call, state: 'output-error', errorText: chunk.errorText } as CallPart;
    case 'tool-output-denied':
      return { ...call, state: 'output-denied' } as CallPart;
  }
}
