import type { ISharedNotebook } from '@jupyter/ydoc';
import { code, rest } from './disk';
import { Lab, PATH, hold, loseAnswer, saveWhile, until } from './lab';

describe.each([undefined, 'rtc'])('FileAccess with the contents provider %s', provider => {
  it('saves with one request', async () => {
    const lab = new Lab(provider);
    const { context, file, type } = await lab.open();
    type('z');
    await context.save();
    expect(lab.disk.requests).toEqual(['PUT']);
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
    expect(context.model.dirty).toBe(false);
    expect(file.isAhead).toBe(false);
    expect(context.contentsModel?.hash).toBe(file.hash);
    expect(file.isBusy).toBe(false);
  });

  it('leaves what is typed during a save marked as unsaved', async () => {
    const lab = new Lab(provider);
    const { context, file, type } = await lab.open();
    await saveWhile(lab, context, () => type('z'));
    expect(context.model.dirty).toBe(true);
    expect(file.isAhead).toBe(true);
    expect(lab.disk.texts[PATH]).toEqual(['# x = 1', 'y = 1']);
  });

  it('lets one save follow the other, and one of many that wait, with the newest text', async () => {
    const lab = new Lab(provider);
    const { context, file, type } = await lab.open();
    const put = hold(lab, 'PUT');
    const saves = [context.save()];
    await put.held();
    saves.push(
      context.save(),
      context.save(),
      file.save().then(() => undefined)
    );
    await rest();
    type('z');
    put.release();
    await Promise.all(saves);
    expect(lab.disk.requests).toEqual(['PUT', 'PUT']);
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
    expect(context.model.dirty).toBe(false);
    expect(lab.dialogs).toEqual([]);
  });

  it('is not confused by a save that begins as another one ends', async () => {
    const lab = new Lab(provider);
    const { context, type } = await lab.open();
    for (let steps = 0; steps < 20; steps++) {
      const more = new Promise<void>(resolve => {
        lab.disk.answered = request => {
          lab.disk.answered = () => undefined;
          expect(request).toBe('PUT');
          const wait = async (): Promise<void> => {
            for (let step = 0; step < steps; step++) {
              await Promise.resolve();
            }
          };
          void wait().then(() => resolve(context.save()));
        };
      });
      type('z');
      await Promise.all([context.save(), more]);
    }
    expect(lab.dialogs).toEqual([]);
    expect(context.model.dirty).toBe(false);
    expect(context.contentsModel?.hash).toBeDefined();
  });

  it('merges what another program has written, and asks nothing', async () => {
    const lab = new Lab(provider);
    const { context, file, type, texts } = await lab.open();
    type('z');
    await saveWhile(lab, context, () => lab.disk.write(PATH, code('# x = 1', 'theirs')));
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(context.model.dirty).toBe(false);
    expect(file.isAhead).toBe(false);
    expect(lab.dialogs).toEqual([]);
  });

  it('does not take for saved what another program writes right after its save', async () => {
    const lab = new Lab(provider);
    const { context, type, texts } = await lab.open();
    type('z');
    await saveWhile(lab, context, () => lab.disk.write(PATH, code('z# x = 1', 'theirs')), 'after');
    type('!');
    await context.save();
    expect(texts()).toEqual(['!z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('fails if the file cannot be read, and JupyterLab asks at the next save', async () => {
    const lab = new Lab(provider);
    const { context, file, type } = await lab.open();
    type('z');
    lab.disk.write(PATH, 'broken');
    await lab.fails(context, 'could not be merged');
    expect(context.model.dirty).toBe(true);
    const saved = context.save();
    await lab.answer('File Changed', 'Overwrite');
    await saved;
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
    await context.save(); // the question is answered: from here on as ever
    expect(context.model.dirty).toBe(false);
    expect(file.isAhead).toBe(false);
    expect(lab.dialogs).toEqual([]);
  });

  it('merges a file that can be read again, and asks nothing', async () => {
    const lab = new Lab(provider);
    const { context, type, texts } = await lab.open();
    type('z');
    lab.disk.write(PATH, 'broken');
    await lab.fails(context, 'could not be merged');
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('fails if others write the file all the time, and succeeds when they are done', async () => {
    const lab = new Lab(provider);
    const { context, type, texts } = await lab.open();
    type('z');
    let number = 0;
    lab.disk.before = request =>
      request === 'PUT' && lab.disk.write(PATH, code('# x = 1', `theirs ${number++}`));
    await lab.fails(context, 'keep writing');
    expect(number).toBe(10);
    lab.disk.before = () => undefined;
    expect(context.model.dirty).toBe(true);
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'theirs 9']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('waits for a file that is gone for a moment, as while git recreates it', async () => {
    const lab = new Lab(provider);
    const { context, type, texts } = await lab.open();
    type('z');
    await lab.disk.delete(PATH);
    const saved = context.save();
    await until(() => lab.disk.requests.includes('GET hash'));
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    await saved;
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });

  it('creates a file again that stays deleted', async () => {
    const lab = new Lab(provider);
    const { context } = await lab.open();
    await lab.disk.delete(PATH);
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(['# x = 1', 'y = 1']);
    await context.save();
    expect(lab.dialogs).toEqual([]);
  });

  it('overwrites an earlier file that this page itself had saved', async () => {
    const lab = new Lab(provider);
    const { context, type, texts } = await lab.open();
    const earlier = lab.disk.write(PATH, code('# x = 1', 'y = 1'));
    await context.save();
    type('z');
    await context.save();
    lab.disk.put(PATH, { ...earlier, modified: 0 });
    type('!');
    await context.save();
    expect(texts()).toEqual(['!z# x = 1', 'y = 1']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('saves again if it failed for another reason', async () => {
    const lab = new Lab(provider);
    const { context, file, type } = await lab.open();
    type('z');
    lab.disk.before = () => {
      throw new Error('the disk is full');
    };
    await lab.fails(context, 'the disk is full');
    expect(context.model.dirty).toBe(true);
    expect(file.isAhead).toBe(true);
    lab.disk.before = () => undefined;
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
    expect(file.isBusy).toBe(false);
  });

  it('writes a notebook that is closed while its save waits as it was', async () => {
    const lab = new Lab(provider);
    const { context, type } = await lab.open();
    const put = hold(lab, 'PUT');
    const saves = [context.save()];
    await put.held();
    for (const text of ['z', 'y']) {
      type(text);
      saves.push(context.save());
      await rest();
    }
    context.dispose();
    put.release();
    await Promise.allSettled(saves);
    expect(lab.disk.texts[PATH]).toEqual(['yz# x = 1', 'y = 1']);
  });

  it.each<[string, (first: ISharedNotebook) => void, (then: ISharedNotebook) => void, string[]]>([
    [
      'types on',
      cells => cells.getCell(0).updateSource(0, 0, 'a\n'),
      cells => cells.getCell(0).updateSource(0, 0, 'b\n'),
      ['b\na\n# x = 1', 'y = 1']
    ],
    [
      'deletes a text and types it again',
      cells => cells.getCell(1).setSource(''),
      cells => cells.getCell(1).setSource('y = 1'),
      ['# x = 1', 'y = 1']
    ],
    [
      'adds a cell and deletes it again',
      cells => cells.addCell({ cell_type: 'code', source: 'secret' }),
      cells => cells.deleteCell(2),
      ['# x = 1', 'y = 1']
    ]
  ])('saves the newest text if an answer is lost and the user %s', async (_, first, then, end) => {
    const lab = new Lab(provider);
    const { context, texts } = await lab.open();
    first(context.model.sharedModel);
    loseAnswer(lab, 'PUT');
    await lab.fails(context, 'the answer is lost');
    then(context.model.sharedModel);
    await context.save();
    expect(texts()).toEqual(end);
    expect(lab.disk.texts[PATH]).toEqual(end);
  });

  it('merges what is written over a text whose save was not answered', async () => {
    const lab = new Lab(provider);
    const { context, type, texts } = await lab.open();
    type('a\n');
    loseAnswer(lab, 'PUT');
    await lab.fails(context, 'the answer is lost');
    lab.disk.write(PATH, code('a\n# x = 1', 'theirs'));
    type('b\n');
    await context.save();
    expect(texts()).toEqual(['b\na\n# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });

  it('asks nothing after a merge that did not reach the server', async () => {
    const lab = new Lab(provider);
    const { context, file, type, texts } = await lab.open();
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    await file.reconcile(() => false);
    lab.disk.write(PATH, code('# x = 1', 'theirs too'));
    type('z');
    lab.disk.before = () => {
      throw new Error('no network');
    };
    await lab.fails(context, 'no network');
    lab.disk.before = () => undefined;
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'theirs too']);
    expect(lab.dialogs).toEqual([]);
  });
});
