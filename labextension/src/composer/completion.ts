import { Store } from '../store';
import type { Mentions } from './mentions';
import type { IOption, IToken } from './options';
import type { Slash } from './slash';

/** The list under the cursor; never changed in place. */
export interface ICompletionState {
  readonly token: IToken | null;
  readonly options: readonly IOption[];
  /** The option that Enter accepts. */
  readonly active: number;
}

const NOTHING: ICompletionState = { token: null, options: [], active: 0 };

/** The word before the cursor, if it can be completed. */
export function tokenAt(text: string, cursor: number): IToken | null {
  const before = text.slice(0, cursor);
  const to = cursor + /^[^\s@]*/.exec(text.slice(cursor))![0].length;
  const command = /^\/([\w-]*)$/.exec(before);
  if (command) {
    return { kind: 'command', query: command[1], from: 0, to };
  }
  const value = /^\/([\w-]+) (\S*)$/.exec(before);
  if (value) {
    return {
      kind: 'value',
      command: value[1],
      query: value[2],
      from: cursor - value[2].length,
      to
    };
  }
  const mention = /(?:^|[\s(])@((?:[^\n@/]*\/)*[^\s@/]*(?: \d*)?)$/.exec(before); // folders may have spaces, and a label may end with a number
  return (
    mention && { kind: 'mention', query: mention[1], from: cursor - mention[1].length - 1, to }
  );
}

/** Completions for the word that is being typed. */
export class Completion extends Store<ICompletionState> {
  constructor(
    private readonly _mentions: Mentions,
    private readonly _slash: Slash
  ) {
    super(NOTHING);
  }

  /** The option that Enter accepts, or undefined if there isn't one. */
  get chosen(): IOption | undefined {
    return this.state.options[this.state.active];
  }

  /** Show completions for the word at the cursor. */
  complete(text: string, cursor: number): void {
    const token = tokenAt(text, cursor);
    if (!token) {
      this.close();
    } else if (!this._dismissed) {
      this._show(token);
    }
  }

  move(step: number): void {
    const { options, active } = this.state;
    this.update({ active: (active + step + options.length) % options.length });
  }

  activate(active: number): void {
    this.update({ active });
  }

  /** Hide the list until another word is started. */
  dismiss(): void {
    this.close();
    this._dismissed = true;
  }

  /** Hide the list. */
  close(): void {
    this._dismissed = false;
    this._mentions.clearCache();
    if (this.state !== NOTHING) {
      this.set(NOTHING);
    }
  }

  private _show(token: IToken): void {
    if (token.kind !== 'mention') {
      this.set({ token, options: this._slash.options(token), active: 0 });
      return;
    }
    const onPage = this._mentions.onPage(token.query);
    const known = this.state.token?.from === token.from ? this.state.options : [];
    this.set({ token, options: onPage.length ? onPage : known, active: 0 });
    let all = onPage;
    for (const request of this._mentions.onServer(token.query)) {
      void request.then(more => {
        all = [...all, ...more];
        if (this.state.token === token) {
          const options = rank(all, token.query);
          const active = Math.min(this.state.active, Math.max(options.length - 1, 0));
          this.update({ options, active });
        }
      });
    }
  }

  private _dismissed = false;
}

/** Prefix matches first, with their groups. */
function rank(options: readonly IOption[], query: string): IOption[] {
  const begins = ({ label }: IOption): boolean =>
    query !== '' && label.toLowerCase().startsWith(query.toLowerCase());
  const first = new Set(options.filter(begins).map(({ group }) => group));
  const [front, rest] = [true, false].map(wanted =>
    options.filter(({ group }) => first.has(group) === wanted)
  );
  return [...front.filter(begins), ...front.filter(option => !begins(option)), ...rest];
}
