import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { refusalWords } from './failureWords';
import { failureOf } from '../api/failure';

/** How long a notification stays, in milliseconds. */
export const NOTIFICATION_MS = 8000;

/** Perform a request for the user; if it fails, a notification says why. */
export async function notifyErrors(
  work: () => Promise<void>,
  trans: TranslationBundle
): Promise<void> {
  try {
    await work();
  } catch (error) {
    const words = refusalWords(failureOf(error), trans);
    Notification.error(words || trans.__('The server does not answer. Nothing was lost.'), {
      autoClose: NOTIFICATION_MS
    });
  }
}
