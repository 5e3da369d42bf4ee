import { inTab } from '../storage';

const STORAGE_KEY = 'jupyter-agent:cell-texts';

/** Unsent text at each cell, by cell id; survives a reload. */
export class WrittenTexts {
  get(cellId: string): string {
    return this._texts[cellId] ?? '';
  }

  set(cellId: string, text: string): void {
    const others = Object.entries(this._texts).filter(([id]) => id !== cellId);
    this._texts = Object.fromEntries(text.trim() ? [...others, [cellId, text]] : others);
    inTab.set(STORAGE_KEY, this._texts);
  }

  private _texts = inTab.get<Readonly<Record<string, string>>>(STORAGE_KEY) ?? {};
}
