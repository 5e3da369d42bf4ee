import type { TranslationBundle } from '@jupyterlab/translation';
import type { IOption, IToken } from './options';

/** A command `/name`. */
export interface ISlashCommand {
  name: string;
  /** What it does, in a few words. */
  description: string;
  /** The question: `{input}` is replaced by the text after the name; without `{input}` that text is appended. */
  text?: string;
  /** Runs the command instead of sending a question; gets the text after the name. */
  run?: (input: string) => void;
  /** Values that can follow the name. */
  values?: () => { value: string; description: string }[];
}

/** A command from the user's settings. */
export type OwnCommand = Required<Pick<ISlashCommand, 'name' | 'description' | 'text'>>;

/** The commands of the message field: those that send a prepared prompt, and those that act in the panel. */
export class Slash {
  constructor(
    private readonly _acting: readonly ISlashCommand[],
    private readonly _trans: TranslationBundle
  ) {}

  /** The user's commands; they replace our prompts of the same name. */
  own: readonly OwnCommand[] = [];

  /** All commands, each name once; commands that act cannot be replaced. */
  get commands(): ISlashCommand[] {
    const all = [...this._acting, ...this.own, ...asking(this._trans)];
    return [...new Map(all.toReversed().map(command => [command.name, command])).values()].sort(
      (one, other) => one.name.localeCompare(other.name)
    );
  }

  /** The question for a text, or what its command does instead. */
  expand(text: string): string | (() => void) {
    const [, name, input] = /^\/([\w-]+)\s*([^]*)$/.exec(text) ?? [];
    const command = this.commands.find(known => known.name === name);
    if (!command) {
      return text;
    }
    const { run } = command;
    if (run) {
      return () => run(input.trim());
    }
    const template = command.text ?? '';
    return template.includes('{input}')
      ? template.replaceAll('{input}', () => input).trim()
      : [template, input].filter(Boolean).join('\n\n');
  }

  /** Completions for the word being typed. */
  options({ kind, query, command: name }: IToken): IOption[] {
    if (kind === 'command') {
      return this.commands
        .filter(command => command.name.startsWith(query.toLowerCase()))
        .map(({ name, description, run, values }) => ({
          group: this._trans.__('Commands'),
          label: `/${name}`,
          about: description,
          insert: `/${name} `,
          complete: run !== undefined && !values
        }));
    }
    const values = this.commands.find(command => command.name === name)?.values?.() ?? [];
    return values
      .filter(({ value }) => value.toLowerCase().includes(query.toLowerCase()))
      .map(({ value, description }) => ({
        group: `/${name}`,
        label: value,
        about: description,
        insert: value,
        complete: true
      }));
  }
}

/** Commands with prepared prompts. */
function asking(trans: TranslationBundle): ISlashCommand[] {
  return [
    {
      name: 'fix',
      description: trans.__('Find out why the cell fails and fix it'),
      text: trans.__('Find out why this cell fails, and fix it.')
    },
    {
      name: 'explain',
      description: trans.__('Explain the cell or the selection'),
      text: trans.__('Explain this step by step.')
    },
    {
      name: 'refactor',
      description: trans.__('Make the cell clearer without changing what it does'),
      text: trans.__(
        'Make this cell clearer and simpler without changing what it does. Run it, and compare.'
      )
    },
    {
      name: 'test',
      description: trans.__('Add a cell that tests this one'),
      text: trans.__(
        'Add a cell below this one that tests it with a few telling cases, and run it.'
      )
    },
    {
      name: 'document',
      description: trans.__('Add docstrings and a few words above the cell'),
      text: trans.__(
        'Document this cell: docstrings, comments where a reason is needed, and a short Markdown cell above it.'
      )
    },
    {
      name: 'plot',
      description: trans.__('Plot the data'),
      text: trans.__('Plot the key trends here. {input}')
    },
    {
      name: 'continue',
      description: trans.__('Take the next step after the cell'),
      text: trans.__(
        'Continue from this cell: add the next step that makes sense below it, and run it.'
      )
    }
  ];
}
