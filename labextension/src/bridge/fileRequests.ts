import type { Contents } from '@jupyterlab/services';
import { ServerConnection } from '@jupyterlab/services';

/** Milliseconds that a request may still take after the page was frozen and has resumed. */
const PATIENCE = 2000;
/** Milliseconds to wait for a deleted file to be recreated. */
const GAP = 200;
export const SILENT = 'silent';

/** Whether our server has refused a save, as others have written the file (`PageSaves`). */
export function isRefused(error: unknown): boolean {
  return (
    error instanceof ServerConnection.ResponseError &&
    error.message.includes('jupyter_agent: another program wrote')
  );
}

/** Read the file, and retry once if it is missing: `git checkout` deletes a file, then recreates it. */
export async function lookTwice(get: () => Promise<Contents.IModel>): Promise<Contents.IModel> {
  try {
    return await get();
  } catch (error) {
    if (!isMissing(error)) {
      throw error;
    }
    await new Promise(resolve => setTimeout(resolve, GAP));
    return get();
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof ServerConnection.ResponseError && error.response.status === 404;
}

/**
 * The result of `work`, or SILENT if the page was frozen during it and it does not settle soon after: a request that is
 * pending when Chromium freezes the page sometimes never settles.
 */
export async function orTimeoutAfterFreeze<T>(work: Promise<T>): Promise<T | typeof SILENT> {
  let giveUp!: () => void;
  const silence = new Promise<typeof SILENT>(resolve => (giveUp = () => resolve(SILENT)));
  const onResume = (): unknown => setTimeout(giveUp, PATIENCE);
  document.addEventListener('resume', onResume);
  try {
    return await Promise.race([work, silence]);
  } finally {
    document.removeEventListener('resume', onResume);
  }
}
