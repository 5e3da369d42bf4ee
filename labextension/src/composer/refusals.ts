import type { TranslationBundle } from '@jupyterlab/translation';
import type { FileRefusal } from './files';

/** Why a file cannot be attached: "“table.csv” is empty." */
export function describeRefusal(why: FileRefusal, name: string, trans: TranslationBundle): string {
  const words = {
    kind: trans.__('Only PNG, JPEG, GIF and WebP pictures can be attached.'),
    size: trans.__('The picture “%1” is too large to send, even scaled down.', name),
    large: trans.__('“%1” is too large to send. Upload it and read it in a cell.', name),
    empty: trans.__('“%1” is empty.', name),
    binary: trans.__(
      '“%1” is neither a picture, a PDF nor text. Upload it and attach it with @.',
      name
    ),
    broken: trans.__('“%1” cannot be read.', name)
  };
  return words[why];
}
