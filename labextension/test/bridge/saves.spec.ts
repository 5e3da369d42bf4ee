import { code, rest } from './disk';
import { Lab, PATH, hold, until } from './lab';

describe('FileAccess', () => {
  it('saves with one request', async () => {
    const lab = new Lab();
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
    const lab = new Lab();
    const { context, file, type } = await lab.open();
    const put = hold(lab, 'PUT');
    const saved = context.save();
    await put.held();
    type('z');
    put.release();
    await saved;
    expect(context.model.dirty).toBe(true);
    expect(file.isAhead).toBe(true);
    expect(lab.disk.texts[PATH]).toEqual(['# x = 1', 'y = 1']);
  });

  it('lets one save follow the other, and one of many that wait, with the newest text', async () => {
    const lab = new Lab();
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
    const lab = new Lab();
    const { context, type } = await lab.open();
    const more: Promise<void>[] = [];
    lab.contents.fileChanged.connect((_, { type: what }) => {
      if (what === 'save' && more.length < 3) {
        more.push(context.save());
      }
    });
    type('z');
    await context.save();
    await Promise.all(more);
    await Promise.all(more);
    expect(lab.dialogs).toEqual([]);
    expect(context.model.dirty).toBe(false);
    expect(context.contentsModel?.hash).toBeDefined();
  });

  it('merges what another program has written, and asks nothing', async () => {
    const lab = new Lab();
    const { context, file, type, texts } = await lab.open();
    type('z');
    const put = hold(lab, 'PUT');
    const saved = context.save();
    await put.held();
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    put.release();
    await saved;
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(context.model.dirty).toBe(false);
    expect(file.isAhead).toBe(false);
    expect(lab.dialogs).toEqual([]);
  });

  it('does not take for saved what another program writes right after its save', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    type('z');
    const put = hold(lab, 'PUT', 'after');
    const saved = context.save();
    await put.held();
    lab.disk.write(PATH, code('z# x = 1', 'theirs'));
    put.release();
    await saved;
    type('!');
    await context.save();
    expect(texts()).toEqual(['!z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('fails if the file cannot be read, and JupyterLab asks at the next save', async () => {
    const lab = new Lab();
    const { context, file, type } = await lab.open();
    type('z');
    lab.disk.write(PATH, 'broken');
    await expect(context.save()).rejects.toThrow('could not be merged');
    await lab.answer(`File Save Error for ${PATH}`, 'Close');
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
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    type('z');
    lab.disk.write(PATH, 'broken');
    await expect(context.save()).rejects.toThrow('could not be merged');
    await lab.answer(`File Save Error for ${PATH}`, 'Close');
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('fails if others write the file all the time, and succeeds when they are done', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    type('z');
    let number = 0;
    lab.disk.before = request =>
      request === 'PUT' && lab.disk.write(PATH, code('# x = 1', `theirs ${number++}`));
    await expect(context.save()).rejects.toThrow('keep writing');
    await lab.answer(`File Save Error for ${PATH}`, 'Close');
    expect(number).toBe(10);
    lab.disk.before = () => undefined;
    expect(context.model.dirty).toBe(true);
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'theirs 9']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
    expect(lab.dialogs).toEqual([]);
  });

  it('waits for a file that is gone for a moment, as while git recreates it', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    type('z');
    await lab.disk.delete(PATH);
    const look = hold(lab, 'GET hash', 'after');
    const failing = hold(lab, 'PUT', 'after');
    const saved = context.save();
    await until(() => lab.disk.requests.includes('GET hash'));
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    failing.release();
    look.release();
    await saved;
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });

  it('creates a file again that stays deleted', async () => {
    const lab = new Lab();
    const { context } = await lab.open();
    await lab.disk.delete(PATH);
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(['# x = 1', 'y = 1']);
    await context.save();
    expect(lab.dialogs).toEqual([]);
  });

  it('overwrites an earlier file that this page itself had saved', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    const earlier = lab.disk.write(PATH, code('# x = 1', 'y = 1'));
    lab.disk.before = () => undefined;
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
    const lab = new Lab();
    const { context, file, type } = await lab.open();
    type('z');
    lab.disk.before = () => {
      throw new Error('the disk is full');
    };
    await expect(context.save()).rejects.toThrow('the disk is full');
    await lab.answer(`File Save Error for ${PATH}`, 'Close');
    expect(context.model.dirty).toBe(true);
    expect(file.isAhead).toBe(true);
    lab.disk.before = () => undefined;
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
    expect(file.isBusy).toBe(false);
  });

  it('writes a notebook that is closed while its save waits as it was', async () => {
    const lab = new Lab();
    const { context, type } = await lab.open();
    const put = hold(lab, 'PUT');
    const saves = [context.save()];
    await put.held();
    type('z');
    saves.push(context.save());
    await rest();
    context.dispose();
    put.release();
    await Promise.allSettled(saves);
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
  });
});
