import { carryOver } from '../../src/bridge/reload';

describe('carryOver', () => {
  it.each([
    ['before', 'a = 1\nb = 2', 'a = 1 # mine\nb = 2', 'a = 1\nb = 3', 'a = 1 # mine\nb = 3'],
    ['behind', 'a = 1\nb = 2', 'a = 1\nb = 2 # mine', 'a = 100\nb = 2', 'a = 100\nb = 2 # mine'],
    ['in the midst', 'a = 1', 'a = 1 # mine', 'b = 2 + 2', 'b = 2 + 2 # mine'],
    ['at the same place', 'a = 1', 'a = 15', 'a = 1 # note', 'a = 15 # note'],
    ['where nothing else changed', 'a', 'ab', 'a', 'ab'],
    ['a deletion', 'a = 1 # old', 'a = 1', 'b = 1 # old', 'b = 1'],
    ['surrogates stay whole', '"😀"', '"😀!"', '"😀" + x', '"😀!" + x']
  ])('keeps what was typed %s', (_, base, typed, other, both) => {
    expect(carryOver(base, typed, other)).toBe(both);
  });
});
