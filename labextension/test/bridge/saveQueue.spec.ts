import { SaveQueue } from '../../src/bridge/saveQueue';
import { SerialQueue } from '../../src/bridge/serialQueue';

function open() {
  const ends: ((hash?: string) => void)[] = [];
  const fails: ((reason: Error) => void)[] = [];
  const queue = new SaveQueue(
    new SerialQueue(),
    () =>
      new Promise(resolve => {
        ends.push(resolve);
        fails.push(reason => resolve(Promise.reject(reason)));
      })
  );
  const told: string[] = [];
  const save = (name: string) => {
    const asked = queue.save();
    asked.written.then(
      hash => told.push(`${name} written ${hash}`),
      () => told.push(`${name} failed`)
    );
    asked.done.then(
      () => told.push(`${name} done`),
      () => undefined
    );
    return asked;
  };
  return { ends, fails, queue, save, told };
}

const rest = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('SaveQueue', () => {
  it('tells of a file as soon as it is written', async () => {
    const { ends, queue, save, told } = open();
    save('a');
    queue.hasWritten('h1');
    await rest();
    expect(told).toEqual(['a written h1']);
    ends[0]('h1');
    await rest();
    expect(told).toEqual(['a written h1', 'a done']);
  });

  it('tells nobody of a save that had begun before they asked', async () => {
    const { ends, queue, save, told } = open();
    save('a');
    expect(save('b')).toBe(save('c')); // neither has started: one save is enough
    queue.hasWritten('h1');
    ends[0]('h1');
    await rest();
    expect(told).toEqual(['a written h1', 'a done']);
    queue.hasWritten('h2');
    await rest();
    expect(told.slice(2)).toEqual(['b written h2', 'c written h2']);
    expect(ends).toHaveLength(2);
  });

  it('tells at its end where no hash was known before, and that it failed', async () => {
    const { ends, fails, queue, save, told } = open();
    save('a');
    queue.hasWritten(undefined);
    ends[0]('known later');
    await rest();
    save('b');
    fails[1](new Error('full'));
    await rest();
    expect(told).toEqual(['a written known later', 'a done', 'b failed']);
  });
});
