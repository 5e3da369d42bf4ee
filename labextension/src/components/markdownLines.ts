/** The start of a line: indentation, and the marks of quotations and list items. */
const PREFIX = /^(?:[ \t]|>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))*/;
const FENCE = /^(?:(`{3,})[^`]*|(~{3,}).*)$/;

/** The address of links that are written as `[text][label]`; the first group is the label. */
export const ADDRESS =
  /^ {0,3}\[(?!\^)([^\]]+)\]: *(?:<[^<>]*>|\S+)(?: +(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*$/;

/** The start of a line, with its indentation and marks, and its text. */
export function partsOf(line: string): [prefix: string, text: string] {
  const prefix = PREFIX.exec(line)![0];
  return [prefix, line.slice(prefix.length).trimEnd()];
}

/** Follows where code between fences begins and ends, also in lists and quotations. */
export class Fences {
  /** Whether the line with this text is in such code, or begins or ends it. */
  take(text: string): boolean {
    const [, ticks, tildes] = FENCE.exec(text) ?? [];
    const mark = ticks ?? tildes ?? '';
    const wasOpen = this.isOpen;
    if (!wasOpen) {
      this._mark = mark;
    } else if (mark === text && mark.startsWith(this._mark)) {
      this._mark = '';
    }
    return wasOpen || !!mark;
  }

  /** Whether the code has not ended yet. */
  get isOpen(): boolean {
    return !!this._mark;
  }

  private _mark = '';
}
