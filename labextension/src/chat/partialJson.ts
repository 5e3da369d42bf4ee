/** A backslash, itself not escaped, whose sequence is not complete yet. */
const HALF_ESCAPE = /((?:^|[^\\])(?:\\\\)*)\\(?:u[\da-f]{0,3})?$/i;

/**
 * The parsed start of a JSON object whose text is still being streamed, or undefined if there is too little.
 *
 * Open strings and brackets are closed; a key, number or literal that may be incomplete is left out.
 */
export function partialObject(text: string): Record<string, unknown> | undefined {
  const closers: string[] = [];
  let string = false;
  let escaped = false;
  let end = 0; // the text up to here is valid JSON with `tail` appended
  let tail = '';
  for (let index = 0; index < text.length; index++) {
    const char = text[index];
    if (string) {
      string = escaped || char !== '"';
      escaped = !escaped && char === '\\';
    } else if (char === '"') {
      string = true;
    } else if (char === '{' || char === '[') {
      closers.unshift(char === '{' ? '}' : ']');
      [end, tail] = [index + 1, closers.join('')];
    } else if (char === '}' || char === ']') {
      closers.shift();
      [end, tail] = [index + 1, closers.join('')];
    } else if (char === ',') {
      [end, tail] = [index, closers.join('')];
    }
  }
  const open = string ? text.replace(HALF_ESCAPE, '$1') + '"' + closers.join('') : text;
  return parse(open) ?? parse(text.slice(0, end) + tail);
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
