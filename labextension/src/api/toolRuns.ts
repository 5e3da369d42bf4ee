import type { IRunOutput } from './protocol';

/** The runs in a tool's output; empty for a tool that runs nothing. */
export function runsOf(output: unknown): IRunOutput[] {
  if (isRun(output)) {
    return [output];
  }
  const { cells } = (output ?? {}) as { cells?: unknown };
  return Array.isArray(cells) ? cells.filter(isRun) : [];
}

/** Which cells an edit was to run and did not, and why; empty for most calls. */
export function notRun(output: unknown): string {
  const { not_run } = (output ?? {}) as { not_run?: unknown };
  return typeof not_run === 'string' ? not_run : '';
}

/** Whether the run had not ended when this output was written. */
export function isUnfinished({ status }: Pick<IRunOutput, 'status'>): boolean {
  return status === 'running' || status === 'queued';
}

function isRun(value: unknown): value is IRunOutput {
  return Array.isArray((value as Partial<IRunOutput> | null | undefined)?.outputs);
}

/** The variables in the output of `inspect_variables`: one starts on each line that is not indented. */
export function variablesIn(text: string): { name: string; about: string }[] {
  return [...text.matchAll(/^(\w+): (.*)$/gm)].map(([, name, about]) => ({ name, about }));
}
