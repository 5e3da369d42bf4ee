import type { TranslationBundle } from '@jupyterlab/translation';
import type { Locate } from './cellNames';

interface IVerifyingOptions {
  /** The result so far. */
  output?: unknown;
  notebook: string | null;
  locate: Locate;
  trans: TranslationBundle;
}

interface IVerification {
  /** The cell that runs. */
  running?: string;
  ok?: boolean;
  cells?: { status: string }[];
}

/** "Checked the notebook: 2 differ, 1 failed". */
export function verifying({
  output,
  notebook,
  locate,
  trans
}: IVerifyingOptions): [todo: string, doing: string, done: string] {
  const it = notebook ?? trans.__('the notebook');
  const { running, ok, cells = [] } = (output ?? {}) as IVerification;
  const count = (wanted: string): number => cells.filter(({ status }) => status === wanted).length;
  const place = running ? locate(running) : null;
  const [same, close] = [count('same'), count('close')];
  const [differ, failed] = [count('differs'), count('error')];
  const found = ok
    ? trans._n('the cell gives the same results', 'all %1 cells give the same results', same)
    : [
        differ > 0 && trans.__('%1 differ', differ),
        close > 0 && trans.__('%1 are close', close),
        failed > 0 && trans.__('%1 failed', failed)
      ]
        .filter(Boolean)
        .join(', ');
  return [
    trans.__('Run a copy of %1 from the top', it),
    place ? trans.__('Checking %1, cell %2', it, place) : trans.__('Checking %1', it),
    found ? trans.__('Checked %1: %2', it, found) : trans.__('Checked %1', it)
  ];
}
