import { inTab } from '../src/storage';

/** The browser refuses, or forbids, this use of its storage. */
function refuse(method: 'getItem' | 'setItem' | 'removeItem', name: string): void {
  jest.spyOn(Storage.prototype, method).mockImplementation(() => {
    throw new DOMException('', name);
  });
}

describe('What is kept in the browser', () => {
  beforeEach(() => sessionStorage.clear());
  afterEach(() => jest.restoreAllMocks());

  it('is there after a reload', () => {
    inTab.set('key', { text: 'one' });
    expect(sessionStorage.getItem('key')).toBe('{"text":"one"}');
    expect(inTab.get('key')).toEqual({ text: 'one' });
    inTab.set('key', null);
    expect(sessionStorage.getItem('key')).toBeNull();
  });

  it('lasts as long as the page if the storage is full, and no earlier text comes back', () => {
    inTab.set('full', { text: 'one' });
    refuse('setItem', 'QuotaExceededError');
    inTab.set('full', { text: 'two' });
    expect(inTab.get('full')).toEqual({ text: 'two' });
    expect(inTab.keys('ful')).toEqual(['full']);
    expect(sessionStorage.getItem('full')).toBeNull();
    jest.restoreAllMocks();
    inTab.set('full', null);
    expect(inTab.get('full')).toBeNull();
  });

  it('lasts as long as the page if storing is forbidden', () => {
    refuse('getItem', 'SecurityError');
    refuse('setItem', 'SecurityError');
    refuse('removeItem', 'SecurityError');
    inTab.set('forbidden', { text: 'one' });
    expect(inTab.get('forbidden')).toEqual({ text: 'one' });
    inTab.set('forbidden', null);
    expect(inTab.get('forbidden')).toBeNull();
  });

  it('is nothing if it cannot be read', () => {
    sessionStorage.setItem('key', '{');
    expect(inTab.get('key')).toBeNull();
  });
});
