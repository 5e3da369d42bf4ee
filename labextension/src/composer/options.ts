import type { Attachment } from '../api/protocol';

/** The word being typed, if it can be completed. */
export interface IToken {
  kind: 'mention' | 'command' | 'value';
  /** The typed part, without the sign. */
  query: string;
  /** The command whose argument it is. */
  command?: string;
  /** Its start and end in the text. */
  from: number;
  to: number;
}

/** A completion. */
export interface IOption {
  group: string;
  label: string;
  /** A short description. */
  about: string;
  /** The text that is inserted. */
  insert: string;
  attachment?: Attachment;
  /** Whether it needs no further input and can be executed at once. */
  complete?: boolean;
}
