import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { AssistantPanel } from './panel';

const INTRODUCED = 'introduced';

/** Notify each user once, in any browser, that the assistant is installed, until they open the panel. */
export async function introduce(
  settings: ISettingRegistry.ISettings,
  panel: Pick<AssistantPanel, 'isVisible' | 'shown'>,
  open: () => void,
  trans: TranslationBundle
): Promise<void> {
  if (settings.composite[INTRODUCED] === true) {
    return;
  }
  if (!panel.isVisible) {
    const id = Notification.info(trans.__('Assistant installed.'), {
      autoClose: false,
      actions: [
        {
          label: trans.__('Open'),
          caption: trans.__('Show the assistant and write to it'),
          callback: open
        }
      ]
    });
    const dismiss = (): void => {
      panel.shown.disconnect(dismiss);
      Notification.dismiss(id); // it would cover the review buttons
    };
    panel.shown.connect(dismiss);
  }
  await settings.set(INTRODUCED, true);
}
