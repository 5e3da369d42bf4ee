import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { AssistantPanel } from './panel';

const INTRODUCED = 'introduced';

/** Say once to each user, in whichever browser, that the assistant is there; until they see it themselves. */
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
      Notification.dismiss(id); // it would cover the buttons of the review
    };
    panel.shown.connect(dismiss);
  }
  await settings.set(INTRODUCED, true);
}
