/**
 * Texts in a storage of the browser. What it does not take, because it is full or forbidden, lasts as long as the page.
 */
class Kept {
  constructor(private readonly _storage: () => Storage) {}

  read(key: string): string | null {
    try {
      return this._refused.get(key) ?? this._storage().getItem(key);
    } catch {
      return null;
    }
  }

  /** Keep a text; null removes it. An earlier text never outlives one that the browser did not take. */
  write(key: string, text: string | null): void {
    try {
      this._refused.delete(key);
      if (text === null) {
        this._storage().removeItem(key);
      } else {
        this._storage().setItem(key, text);
      }
    } catch {
      this._forget(key);
      this._refused.set(key, text ?? '');
    }
  }

  /** A value that was kept with `set`; null if it is missing or unreadable. */
  get<Value>(key: string): Value | null {
    try {
      return JSON.parse(this.read(key) ?? 'null') as Value | null;
    } catch {
      return null;
    }
  }

  /** Keep a value that can be written as JSON; null removes it. */
  set(key: string, value: object | null): void {
    this.write(key, value && JSON.stringify(value));
  }

  /** The keys that begin like this. */
  keys(prefix: string): string[] {
    let known: string[] = [];
    try {
      known = Object.keys(this._storage());
    } catch {
      // forbidden
    }
    return [...new Set([...known, ...this._refused.keys()])].filter(key => key.startsWith(prefix));
  }

  private _forget(key: string): void {
    try {
      this._storage().removeItem(key);
    } catch {
      // forbidden: then there is nothing
    }
  }

  /** What the browser did not take. */
  private readonly _refused = new Map<string, string>();
}

/** Lasts as long as the browser's tab, over reloads. */
export const inTab = new Kept(() => sessionStorage);

/** Lasts, and is shared by all pages. */
export const inBrowser = new Kept(() => localStorage);
