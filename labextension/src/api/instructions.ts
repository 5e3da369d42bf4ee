/** Instructions for every answer: from a file, or `settings` for the user's own. */
export interface IInstructions {
  source: string;
  characters: number;
  /** Whether it is too long, so that only its beginning is sent. */
  cut: boolean;
}

/** Instructions in a file of the project, and the user's decision about them. */
export interface IProjectInstructions extends IInstructions {
  text: string;
  /** Identifies the text in a decision about it. */
  digest: string;
  /** `changed`: another text of the file was trusted. */
  trust: 'trusted' | 'declined' | 'new' | 'changed';
}
