import type { TranslationBundle } from '@jupyterlab/translation';
import type { ICellGlance } from '../bridge/cellGlance';

const MAX_REQUESTS = 3;
const TITLE = /^#+\s+(.+?)\s*#*$/m;
const TABLE = /^(\w+)\s*=\s*[^\n]*\b(?:DataFrame|read_[a-z]+|load_dataset)\(/m;
const FUNCTION = /^def (\w+)\(/m;

/** A few requests that make sense for a notebook, most urgent first; null means no notebook. */
export function suggestedRequests(
  cells: readonly ICellGlance[] | null,
  trans: TranslationBundle
): string[] {
  if (!cells) {
    return [trans.__('What can you do?')];
  }
  if (!cells.some(({ source }) => source.trim())) {
    return [
      trans.__('Find a data file here and load it'),
      trans.__('Start a notebook that compares two samples'),
      trans.__('What can you do?')
    ];
  }
  const code = cells.filter(({ type }) => type === 'code');
  const failed = cells.findIndex(cell => cell.failed);
  const title = first(
    TITLE,
    cells.filter(({ type }) => type === 'markdown')
  );
  const table = first(TABLE, code);
  const tested = first(FUNCTION, code);
  const found = [
    failed >= 0 && trans.__('Fix the error in cell %1', failed + 1),
    title
      ? trans.__('Explain “%1” step by step', title)
      : trans.__('Explain what this notebook does'),
    table && trans.__('Plot the key trends in %1', table),
    code.some(({ source, executed }) => source.trim() && !executed) &&
      trans.__('Run all cells and fix errors'),
    tested && trans.__('Write a test for %1', tested),
    trans.__('Clean up and document this notebook')
  ];
  return found.filter(request => typeof request === 'string').slice(0, MAX_REQUESTS);
}

/** The first match of a pattern. */
function first(pattern: RegExp, cells: readonly ICellGlance[]): string | undefined {
  for (const { source } of cells) {
    const match = pattern.exec(source);
    if (match) {
      return match[1];
    }
  }
  return undefined;
}
