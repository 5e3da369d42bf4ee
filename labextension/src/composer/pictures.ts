import type { IPicture } from '../api/protocol';

/** Image types that models support. */
const KINDS = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/** Longest side that models use, in pixels; larger pictures only cost more. */
const SIDE = 1568;
/** Maximum size of a sent picture, in bytes: the limit of services, in base64. */
const MOST_BYTES = 3_700_000;
/** Maximum size of a picture that is scaled down here, in bytes. */
const MOST_READ = 50_000_000;
export const MOST_PICTURES = 8;

/** Why a file cannot be attached. */
export type Refusal = 'kind' | 'size' | 'broken';

/** Whether a file is an image, but not one that is text. */
export function isPicture({ type }: File): boolean {
  return type.startsWith('image/') && type !== 'image/svg+xml';
}

/** A file as a picture for a model, scaled down if it is larger than models use. */
export async function readPicture(file: File): Promise<IPicture | Refusal> {
  if (!KINDS.includes(file.type)) {
    return 'kind';
  }
  if (file.size > MOST_READ) {
    return 'size';
  }
  let image: ImageBitmap;
  try {
    image = await createImageBitmap(file);
  } catch {
    return 'broken';
  }
  const scale = Math.min(1, SIDE / Math.max(image.width, image.height));
  const blob = scale < 1 || file.size > MOST_BYTES ? await rescale(image, scale, file.type) : file;
  image.close();
  if (blob.size > MOST_BYTES) {
    return 'size';
  }
  const url = await dataUrl(blob);
  return { type: 'file', mediaType: blob.type, filename: file.name, url };
}

/** A copy of that size, as JPEG if it would be too large otherwise. */
async function rescale(image: ImageBitmap, scale: number, kind: string): Promise<Blob> {
  const width = Math.max(1, Math.round(image.width * scale));
  const height = Math.max(1, Math.round(image.height * scale));
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext('2d')!.drawImage(image, 0, 0, width, height);
  const same = await canvas.convertToBlob({ type: kind === 'image/jpeg' ? kind : 'image/png' });
  return same.size > MOST_BYTES ? canvas.convertToBlob({ type: 'image/jpeg' }) : same;
}

/** A blob as a data URL. */
export function dataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error ?? new Error('unreadable'));
    reader.readAsDataURL(blob);
  });
}
