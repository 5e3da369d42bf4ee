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

/** Byte order marks of text in UTF-16 or UTF-32, which has null bytes. */
const WIDE = ['fffe', 'feff', '0000feff'];

/** Why a file cannot be attached. */
export type FileRefusal = Refusal | 'large' | 'empty' | 'content';

/** Whether a file can be attached to a question. */
export function isAttachable(file: File): boolean {
  return isPicture(file) || typeOf(file) !== undefined;
}

/** A file as an attachment of a question. */
export async function readFile(file: File): Promise<IPicture | FileRefusal> {
  const mediaType = typeOf(file);
  if (isPicture(file) || !mediaType) {
    return readPicture(file);
  }
  if (file.size > (mediaType === TYPES['.pdf'] ? MOST_BYTES.pdf : MOST_BYTES.text)) {
    return 'large';
  }
  if (!file.size) {
    return 'empty';
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (isPdf(bytes) !== (mediaType === TYPES['.pdf']) || !(isPdf(bytes) || isText(bytes))) {
    return 'content';
  }
  const url = await dataUrl(new Blob([file], { type: mediaType }));
  return { type: 'file', mediaType, filename: file.name, url };
}

function isPdf(bytes: Uint8Array): boolean {
  return new TextDecoder('latin1').decode(bytes.subarray(0, 5)) === '%PDF-';
}

/** Text of any encoding, as far as null bytes tell. */
function isText(bytes: Uint8Array): boolean {
  const start = [...bytes.subarray(0, 4)].map(byte => byte.toString(16).padStart(2, '0')).join('');
  return !bytes.includes(0) || WIDE.some(mark => start.startsWith(mark));
}

function typeOf({ name }: File): string | undefined {
  return TYPES[PathExt.extname(name).toLowerCase()];
}
