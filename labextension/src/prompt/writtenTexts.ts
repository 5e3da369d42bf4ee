const STORAGE_KEY = 'jupyter-agent:cell-texts';

/** Unsent text at each cell, by cell id; survives a reload. */
export class WrittenTexts {
  get(cellId: string): string {
    return this._texts[cellId] ?? '';
  }

  set(cellId: string, text: string): void {
    const others = Object.entries(this._texts).filter(([id]) => id !== cellId);
    this._texts = Object.fromEntries(text.trim() ? [...others, [cellId, text]] : others);
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(this._texts));
  }

  private _texts = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? '{}') as Readonly<
    Record<string, string>
  >;
}
