import type { Contents } from '@jupyterlab/services';
import { ServerConnection } from '@jupyterlab/services';

/** The methods of a drive that `watchFiles` replaces: the only ones of JupyterLab that this extension changes. */
export type IFiles = Pick<
  Contents.IDrive,
  'get' | 'save' | 'rename' | 'createCheckpoint' | 'restoreCheckpoint'
>;

/** Requests for the hash of a notebook's file, and for the notebook with it. */
export const LOOK = { content: false, hash: true } as const;
export const LOAD = { type: 'notebook', content: true, hash: true } as const;

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

/** Whether the server has the file and cannot read it as a notebook. */
export function isUnreadable(error: unknown): boolean {
  return (
    error instanceof ServerConnection.ResponseError &&
    error.response.status >= 400 &&
    error.response.status < 500 &&
    !isMissing(error)
  );
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

/** The result of `work`; rejects if the page was frozen and `work` does not settle soon after. */
export async function orErrorAfterFreeze<T>(work: Promise<T>): Promise<T> {
  const result = await orTimeoutAfterFreeze(work);
  if (result === SILENT) {
    throw new Error('The server has not answered since the page was inactive.');
  }
  return result;
}

/** The result of `get`; called again if the page was frozen and it does not settle soon after. */
export async function getAgainAfterFreeze<T>(get: () => Promise<T>): Promise<T> {
  for (;;) {
    const result = await orTimeoutAfterFreeze(get());
    if (result !== SILENT) {
      return result;
    }
  }
}
