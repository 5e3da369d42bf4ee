import { JSONExt } from '@lumino/coreutils';
import type { Attachment, IPicture } from '../api/protocol';
import type { OpenNotebooks, IPlace } from '../bridge/openNotebooks';
import type { Move, Renames } from '../bridge/renames';
import { moveAttachment } from '../bridge/renames';
import { inTab } from '../storage';
import { Store } from '../store';

const STORAGE_KEY = 'jupyter-agent:draft';

/** The message being written; never changed in place. */
export interface IDraft {
  readonly text: string;
  /** Where the user is; does not change while the draft is not empty. */
  readonly place: IPlace | null;
  /** Whether the user has removed the notebook: then it no longer follows the user. */
  readonly detached: boolean;
  /** Attachments added by the user. */
  readonly attached: readonly Attachment[];
  readonly pictures: readonly IPicture[];
  /** Why something could not be attached, or empty. */
  readonly refusal: string;
}

/** The question being written, with its attachments. Text survives a reload, pictures do not. */
export class Draft extends Store<IDraft> {
  constructor(
    private readonly _notebooks: OpenNotebooks,
    renames: Pick<Renames, 'moved'>
  ) {
    super({
      text: '',
      place: _notebooks.place,
      detached: false,
      attached: [],
      pictures: [],
      refusal: '',
      ...inTab.get<Partial<IDraft>>(STORAGE_KEY)
    });
    _notebooks.moved.connect(this.follow, this);
    renames.moved.connect((_, move) => this._move(move));
  }

  /** Where the user is now, whatever the draft is about. */
  get here(): IPlace | null {
    return this._notebooks.place;
  }

  /** Whether the output of the active cell shows an error. */
  get hasFailed(): boolean {
    return this._notebooks.hasFailed;
  }

  get isEmpty(): boolean {
    return isBlank(this.state);
  }

  /** All attachments: those of the place first, then those added by the user. */
  get attachments(): Attachment[] {
    const { attached, place } = this.state;
    return [...(place?.attachments ?? []), ...attached];
  }

  /** Follow the user's place, unless the draft is not empty: then it belongs to its place. */
  follow(): void {
    const { place, detached } = this.state;
    if (this.isEmpty || !(place || detached)) {
      this.update({ place: this._notebooks.place, detached: false });
    }
  }

  setText(text: string): void {
    this.update({ text, refusal: '' });
    this.follow();
  }

  /** Attach something, once; attachments that come with the place become the user's own. */
  attach(...attachments: readonly Attachment[]): void {
    const { attached, place } = this.state;
    const others = (all: readonly Attachment[]): Attachment[] =>
      all.filter(known => !attachments.some(one => JSONExt.deepEqual({ ...known }, { ...one })));
    this.update({
      attached: [...others(attached), ...attachments],
      place: place && { ...place, attachments: others(place.attachments) },
      refusal: ''
    });
  }

  /** Remove one of `attachments`; without an index, the notebook with everything from it. */
  detach(index?: number): void {
    const { attached, place } = this.state;
    const own = place?.attachments ?? [];
    if (index === undefined || !place) {
      this.update({ place: null, detached: true });
    } else if (index < own.length) {
      this.update({ place: { ...place, attachments: own.toSpliced(index, 1) } });
    }
    if (index !== undefined && index >= own.length) {
      this.update({ attached: attached.toSpliced(index - own.length, 1) });
    }
  }

  addPictures(pictures: readonly IPicture[]): void {
    this.update({ pictures: [...this.state.pictures, ...pictures], refusal: '' });
  }

  removePicture(index: number): void {
    this.update({ pictures: this.state.pictures.toSpliced(index, 1) });
  }

  /** Show why something was not attached. */
  refuse(refusal: string): void {
    this.update({ refusal });
  }

  /** Put an earlier message, with its notebook, before the text written already. */
  prepend({ text, place, pictures }: Pick<IDraft, 'text' | 'place' | 'pictures'>): void {
    const { state } = this;
    const own = this.isEmpty ? [] : this.attachments;
    this.update({
      text: [text, state.text].filter(one => one.trim()).join('\n\n'),
      place,
      detached: !place,
      attached: [],
      pictures: [...pictures, ...state.pictures]
    });
    this.attach(...own);
  }

  /** Empty the draft, and follow the user again. */
  clear(): void {
    this.update({ text: '', detached: false, attached: [], pictures: [], refusal: '' });
    this.follow();
  }

  private _move(move: Move): void {
    const { attached, place } = this.state;
    const moved = (all: readonly Attachment[]): Attachment[] =>
      all.map(one => moveAttachment(one, move));
    this.update({
      attached: moved(attached),
      place: place && { notebook: move(place.notebook), attachments: moved(place.attachments) }
    });
  }

  protected override set(state: IDraft): void {
    const { text, place, detached, attached } = state;
    inTab.set(STORAGE_KEY, isBlank(state) ? null : { text, place, detached, attached });
    super.set(state);
  }
}

function isBlank({ text, attached, pictures }: IDraft): boolean {
  return !text.trim() && !attached.length && !pictures.length;
}
