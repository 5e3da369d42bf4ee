import { PathExt } from '@jupyterlab/coreutils';
import type { IPicture } from '../api/protocol';
import { type Refusal, dataUrl, isPicture, readPicture } from './pictures';

const PDF = 'application/pdf';
/** The types of text that models read, by file extension: systems disagree on some types. */
const TEXTS: Readonly<Record<string, string>> = {
  '.csv': 'text/csv',
  '.tsv': 'text/tab-separated-values',
  '.json': 'application/json',
  '.md': 'text/markdown'
};
/** Maximum size of a file, in bytes. */
const MOST_BYTES = { pdf: 10_000_000, text: 5_000_000 };

/** Byte order marks of text in UTF-16 or UTF-32, which has null bytes. */
const WIDE = ['fffe', 'feff', '0000feff'];
/** Characters that text in an encoding of single bytes does not have. */
const CONTROLS = /[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]/;

/** Why a file cannot be attached. */
export type FileRefusal = Refusal | 'large' | 'empty' | 'binary';

/** A file as an attachment of a question: a picture, a PDF or text of any kind. */
export async function readFile(file: File): Promise<IPicture | FileRefusal> {
  if (isPicture(file)) {
    return readPicture(file);
  }
  if (file.size > MOST_BYTES.pdf) {
    return 'large';
  }
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    return 'broken'; // a folder, for example
  }
  if (!bytes.length) {
    return 'empty';
  }
  const mediaType = typeOf(bytes, file.name);
  if (!mediaType) {
    return 'binary';
  }
  if (mediaType !== PDF && file.size > MOST_BYTES.text) {
    return 'large';
  }
  const url = await dataUrl(new Blob([bytes], { type: mediaType }));
  return { type: 'file', mediaType, filename: file.name, url };
}

/** The type of a file by its content; its name only tells texts apart. */
function typeOf(bytes: Uint8Array, name: string): string | undefined {
  if (latin1(bytes.subarray(0, 5)) === '%PDF-') {
    return PDF;
  }
  const text = TEXTS[PathExt.extname(name).toLowerCase()] ?? 'text/plain';
  return isText(bytes) ? text : undefined;
}

/** Whether the server can decode the bytes (`jupyter_agent.text.encodings.is_text`). */
function isText(bytes: Uint8Array): boolean {
  const start = [...bytes.subarray(0, 4)].map(byte => byte.toString(16).padStart(2, '0')).join('');
  if (WIDE.some(mark => start.startsWith(mark))) {
    return true;
  }
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\0');
  } catch {
    return !CONTROLS.test(latin1(bytes));
  }
}

/** The bytes as characters of the same numbers. */
function latin1(bytes: Uint8Array): string {
  return new TextDecoder('latin1').decode(bytes);
}
