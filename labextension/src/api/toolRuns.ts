import type { IRunOutput } from './protocol';

/** The runs that a tool's output tells of; none for a tool that runs nothing. */
export function runsOf(output: unknown): IRunOutput[] {
  if (isRun(output)) {
    return [output];
  }
  const { cells } = (output ?? {}) as { cells?: unknown };
  return Array.isArray(cells) ? cells.filter(isRun) : [];
}

function isRun(value: unknown): value is IRunOutput {
  return Array.isArray((value as Partial<IRunOutput> | null | undefined)?.outputs);
}
