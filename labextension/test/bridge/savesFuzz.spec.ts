import { code, rest } from './disk';
import { Lab } from './lab';

const SEEDS = Number(process.env.SEEDS ?? 10);
const STEPS = 40;

/** Repeatable choices. */
function choices(seed: number): (count: number) => number {
  let state = seed;
  return count => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return Math.floor((state / 4294967296) * count);
  };
}

async function pause(tasks: number, steps = 0): Promise<void> {
  for (let task = 0; task < tasks; task++) {
    await rest();
  }
  for (let step = 0; step < steps; step++) {
    await Promise.resolve();
  }
}

describe('FileAccess', () => {
  it.each([...Array(SEEDS).keys()])(
    'keeps every line of a user and another program in one file, whatever fails (seed %i)',
    async seed => {
      const choose = choices(seed);
      const lab = new Lab('rtc');
      const { context, file, type, texts } = await lab.open();
      const lines: string[] = [];
      const pending: Promise<unknown>[] = [];
      const attempt = (work: Promise<unknown>): unknown =>
        pending.push(work.catch(() => undefined));
      const add = (who: string): string => {
        lines.push(`${who} ${lines.length}`);
        return lines.at(-1) ?? '';
      };
      const closeMessages = (): void => {
        expect(lab.dialogs.filter(title => title === 'File Changed')).toEqual([]);
        for (const button of document.querySelectorAll<HTMLElement>('.jp-Dialog button')) {
          button.click();
        }
      };
      lab.disk.before = lab.disk.after = async () => {
        await pause(choose(6));
        if (choose(8) === 0) {
          throw new Error('the network or the server failed');
        }
      };
      const acts = [
        () => type(`${add('mine')}\n`),
        () => attempt(context.save()),
        () => {
          const now = lab.disk.texts[context.path];
          if (now !== undefined && now !== 'broken') {
            lab.disk.write(context.path, code(now[0], `${now[1]}\n${add('theirs')}`));
          }
        },
        () => attempt(context.rename(`n${lines.length}-${pending.length}.ipynb`)),
        () => attempt(file.reconcile(() => choose(2) === 0))
      ];
      const frequent = [0, 0, 0, 1, 1, 1, 2, 3, 4];
      for (let step = 0; step < STEPS; step++) {
        acts[frequent[choose(frequent.length)]]();
        await pause(choose(5), choose(8));
        closeMessages();
      }
      await Promise.all(pending);
      lab.disk.before = lab.disk.after = () => undefined;
      await pause(60);
      closeMessages();
      await context.save();
      await pause(10);
      expect(lab.disk.texts).toEqual({ [context.path]: texts() });
      const found = texts().flatMap(text => text.split('\n'));
      expect(found.filter(line => /^(mine|theirs) /.test(line)).sort()).toEqual(lines.sort());
      expect([context.model.dirty, file.isAhead, file.isBusy]).toEqual([false, false, false]);
      context.dispose();
    }
  );
});
