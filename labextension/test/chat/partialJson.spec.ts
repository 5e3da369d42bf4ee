import { partialObject } from '../../src/chat/partialJson';

describe('partialObject', () => {
  const whole = { source: 'a = "\\n"\n\té\\', n: [1, { deep: 'x' }], ok: true, none: null };

  it('never shows anything but the beginning of what is meant', () => {
    for (const text of [JSON.stringify(whole), JSON.stringify(whole, null, 1)]) {
      for (let end = 1; end < text.length; end++) {
        const { source = '' } = (partialObject(text.slice(0, end)) ?? {}) as { source?: string };
        expect(whole.source.startsWith(source)).toBe(true);
      }
      expect(partialObject(text)).toEqual(whole);
    }
  });

  it('shows a string as it grows', () => {
    expect(partialObject('{"cell_id": "b2", "source": "x = \\"')).toEqual({
      cell_id: 'b2',
      source: 'x = "'
    });
    expect(partialObject('{"source": "x\\u00')).toEqual({ source: 'x' });
    expect(partialObject('{"source": "x\\\\')).toEqual({ source: 'x\\' });
  });

  it('leaves out what may be incomplete', () => {
    expect(partialObject('{"a": 1, "bc')).toEqual({ a: 1 });
    expect(partialObject('{"a": 1, "b": 12')).toEqual({ a: 1 });
    expect(partialObject('[1')).toBeUndefined();
    expect(partialObject('')).toBeUndefined();
  });
});
