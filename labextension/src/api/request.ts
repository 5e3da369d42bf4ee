import { UUID } from '@lumino/coreutils';
import type { AgentMessage, Attachment, IPicture } from './protocol';
import type { components } from './schemas';

/** The options of a turn that a person may choose. */
export type ITurnOptions = Pick<
  ChatBody,
  | 'notebook'
  | 'mode'
  | 'model'
  | 'effort'
  | 'fallback_model'
  | 'instructions'
  | 'share'
  | 'continues'
> & { context?: Attachment[] };

/** The body of `POST chat`. */
export type IChatRequest = ITurnOptions &
  Pick<ChatBody, 'trigger' | 'messageId' | 'undo'> &
  Required<Pick<ChatBody, 'id' | 'client'>> & { messages: AgentMessage[] };

/** As the server describes it; fields without a value are left out. */
type ChatBody = {
  [Field in keyof components['schemas']['ChatBody']]: Exclude<
    components['schemas']['ChatBody'][Field],
    null
  >;
};

/** A person's request. */
export interface IRequest extends ITurnOptions {
  text: string;
  pictures?: IPicture[];
  /** The question that this one replaces, with everything after it. */
  replaces?: IReplaced;
}

/** An earlier question that is asked again, possibly reworded. */
export interface IReplaced {
  id: string;
  /** Whether to first undo the changes that its turn and later ones made to notebooks. */
  undo: boolean;
}

/** The message that a request is shown and sent as. */
export function questionOf(
  { text, pictures = [], notebook, context }: IRequest,
  id: string = UUID.uuid4()
): AgentMessage {
  const parts: AgentMessage['parts'] = text ? [{ type: 'text', text }] : [];
  return { id, role: 'user', metadata: { notebook, context }, parts: [...parts, ...pictures] };
}

/** The body of `POST chat` for a question. */
export function bodyOf(
  { text: _text, pictures: _pictures, replaces, ...options }: IRequest,
  question: AgentMessage,
  about: Pick<IChatRequest, 'id' | 'client'>
): IChatRequest {
  return {
    ...options,
    messages: [question],
    ...about,
    ...(replaces && { messageId: replaces.id, undo: replaces.undo })
  };
}

/** The body of `POST chat` that asks a stored question again, about the same notebook. */
export function againOf(
  options: ITurnOptions,
  question: AgentMessage,
  about: Pick<IChatRequest, 'id' | 'client'>
): IChatRequest {
  const { notebook, context } = question.metadata ?? {};
  return {
    ...options,
    notebook: notebook ?? undefined,
    context,
    messages: [question],
    ...about,
    trigger: 'regenerate-message',
    messageId: question.id
  };
}

/** The question with this id; by default the last. */
export function questionIn(
  messages: readonly AgentMessage[],
  id?: string
): AgentMessage | undefined {
  return messages.findLast(message => message.role === 'user' && (!id || message.id === id));
}

/** The messages before the one with this id, or all if there isn't any. */
export function messagesBefore(
  messages: readonly AgentMessage[],
  id: string | undefined
): readonly AgentMessage[] {
  const index = messages.findIndex(message => message.id === id);
  return index < 0 ? messages : messages.slice(0, index);
}

/** The id of the question that a message answers. */
export function questionBefore(messages: readonly AgentMessage[], id: string): string | undefined {
  return messagesBefore(messages, id).findLast(({ role }) => role === 'user')?.id;
}

/** The title of a conversation, or else its first question; empty if there is neither. */
export function titleOf(title: string | null, messages: readonly AgentMessage[]): string {
  const asked = messages[0]?.parts.find(part => part.type === 'text');
  return title ?? (asked?.type === 'text' ? asked.text.split('\n')[0].slice(0, 80) : '');
}
