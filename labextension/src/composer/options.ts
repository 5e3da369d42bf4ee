import type { Attachment } from '../api/protocol';

/** The word that is being typed, where it may name something. */
export interface IToken {
  kind: 'mention' | 'command' | 'value';
  /** What is typed of it, without the sign. */
  query: string;
  /** The command whose value it is. */
  command?: string;
  /** Where it begins and ends in the text. */
  from: number;
  to: number;
}

/** Something that may be meant. */
export interface IOption {
  group: string;
  label: string;
  /** A few words on what it is. */
  about: string;
  /** What stands in the text for it. */
  insert: string;
  attachment?: Attachment;
  /** Whether there is nothing more to say, and it can be done at once. */
  complete?: boolean;
}
