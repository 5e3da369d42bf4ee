import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { failureOf } from './failure';

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
    const { message } = failureOf(error);
    Notification.error(message || trans.__('The server does not answer. Nothing was lost.'), {
      autoClose: NOTIFICATION_MS
    });
  }
}
