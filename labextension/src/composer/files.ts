import { PathExt } from '@jupyterlab/coreutils';
import type { IPicture } from '../api/protocol';
import { type Refusal, dataUrl, isPicture, readPicture } from './pictures';

/** The types of files that models read, by file extension: systems disagree on some types. */
const TYPES: Readonly<Record<string, string>> = {
  '.pdf': 'application/pdf',
  '.csv': 'text/csv',
  '.tsv': 'text/tab-separated-values',
  '.json': 'application/json',
  '.md': 'text/markdown',
  '.txt': 'text/plain'
};
/** Maximum size of a file, in bytes. */
const MOST_BYTES = { pdf: 10_000_000, text: 5_000_000 };

/** Whether a file can be attached to a question. */
export function isAttachable(file: File): boolean {
  return isPicture(file) || typeOf(file) !== undefined;
}

/** A file as an attachment of a question. */
export async function readFile(file: File): Promise<IPicture | Refusal | 'large'> {
  const mediaType = typeOf(file);
  if (isPicture(file) || !mediaType) {
    return readPicture(file);
  }
  if (file.size > (mediaType === TYPES['.pdf'] ? MOST_BYTES.pdf : MOST_BYTES.text)) {
    return 'large';
  }
  if (!file.size) {
    return 'broken';
  }
  const url = await dataUrl(new Blob([file], { type: mediaType }));
  return { type: 'file', mediaType, filename: file.name, url };
}

function typeOf({ name }: File): string | undefined {
  return TYPES[PathExt.extname(name).toLowerCase()];
}
