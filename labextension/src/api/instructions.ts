/** Something that every answer follows: a file, or `settings` for the user's own. */
export interface IInstructions {
  source: string;
  characters: number;
  /** Whether it is too long, and only its beginning counts. */
  cut: boolean;
}

/** Instructions in a file of the project, and what the user decided about them. */
export interface IProjectInstructions extends IInstructions {
  text: string;
  /** Stands for the text in a decision about it. */
  digest: string;
  /** `changed`: another text of the file was trusted. */
  trust: 'trusted' | 'declined' | 'new' | 'changed';
}
