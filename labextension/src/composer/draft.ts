import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { JSONExt } from '@lumino/coreutils';
import type { Attachment, IPicture } from '../api/protocol';
import type { OpenNotebooks, IPlace } from '../bridge/openNotebooks';

const KEPT = 'jupyter-agent:draft';

/** What the user is about to ask; never changed in place. */
export interface IDraft {
  readonly text: string;
  /** Where the user is; stays as it is while there is something in the draft. */
  readonly place: IPlace | null;
  /** What was attached by hand. */
  readonly attached: readonly Attachment[];
  readonly pictures: readonly IPicture[];
  /** Why something could not be attached; empty where nothing was refused. */
  readonly refusal: string;
}

/** What the user writes, with all that goes along. What is written outlives a reload, pictures do not. */
export class Draft {
  constructor(private readonly _notebooks: OpenNotebooks) {
    this._state = {
      text: '',
      place: _notebooks.place,
      attached: [],
      pictures: [],
      refusal: '',
      ...(JSON.parse(sessionStorage.getItem(KEPT) ?? '{}') as Partial<IDraft>)
    };
    _notebooks.moved.connect(this.follow, this);
  }

  /** Emitted whenever `state` is another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): IDraft {
    return this._state;
  }

  /** Where the user is now, whatever the draft is about. */
  get here(): IPlace | null {
    return this._notebooks.place;
  }

  get isEmpty(): boolean {
    const { text, attached, pictures } = this._state;
    return !text.trim() && !attached.length && !pictures.length;
  }

  /** All that goes along: of the place first, then what was attached by hand. */
  get attachments(): Attachment[] {
    const { attached, place } = this._state;
    return [...(place?.attachments ?? []), ...attached];
  }

  /** Take what goes along from where the user is; not while there is a draft, which is about a place. */
  follow(): void {
    if (this.isEmpty) {
      this._set({ place: this._notebooks.place });
    }
  }

  setText(text: string): void {
    this._set({ text, refusal: '' });
    this.follow();
  }

  /** Attach something, once; what goes along with the place anyway is from now on the user's own. */
  attach(...attachments: readonly Attachment[]): void {
    const { attached, place } = this._state;
    const others = (all: readonly Attachment[]): Attachment[] =>
      all.filter(known => !attachments.some(one => JSONExt.deepEqual({ ...known }, { ...one })));
    this._set({
      attached: [...others(attached), ...attachments],
      place: place && { ...place, attachments: others(place.attachments) },
      refusal: ''
    });
  }

  /** Take away one of `attachments`; without an index, the notebook with all that is of it. */
  detach(index?: number): void {
    const { attached, place } = this._state;
    const own = place?.attachments ?? [];
    if (index === undefined || !place) {
      this._set({ place: null });
    } else if (index < own.length) {
      this._set({ place: { ...place, attachments: own.toSpliced(index, 1) } });
    }
    if (index !== undefined && index >= own.length) {
      this._set({ attached: attached.toSpliced(index - own.length, 1) });
    }
  }

  addPictures(pictures: readonly IPicture[]): void {
    this._set({ pictures: [...this._state.pictures, ...pictures], refusal: '' });
  }

  removePicture(index: number): void {
    this._set({ pictures: this._state.pictures.toSpliced(index, 1) });
  }

  /** Say why something was not attached. */
  refuse(refusal: string): void {
    this._set({ refusal });
  }

  /** Go on with this in place of what is there. */
  replace(draft: Pick<IDraft, 'text' | 'place' | 'pictures'>): void {
    this._set({ ...draft, attached: [], refusal: '' });
  }

  /** Nothing is written any more, and the place is where the user is. */
  clear(): void {
    this._set({ text: '', attached: [], pictures: [], refusal: '' });
    this.follow();
  }

  private _set(change: Partial<IDraft>): void {
    this._state = { ...this._state, ...change };
    if (this.isEmpty) {
      sessionStorage.removeItem(KEPT);
    } else {
      const { text, place, attached } = this._state;
      sessionStorage.setItem(KEPT, JSON.stringify({ text, place, attached }));
    }
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _state: IDraft;
}
