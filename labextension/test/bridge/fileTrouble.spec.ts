import { code, rest } from './disk';
import { Lab, PATH, freeze, hold, saveWhile, until } from './lab';

describe('FileAccess beside a server without hashes', () => {
  it('does not save into the old file during a rename', async () => {
    const lab = new Lab();
    lab.disk.hasHashes = false;
    const { context, type } = await lab.open();
    type('z');
    const patch = hold(lab, 'PATCH');
    const renamed = context.rename('b.ipynb');
    await patch.held();
    const saved = context.save();
    await rest();
    patch.release();
    await Promise.all([renamed, saved]);
    expect(lab.disk.texts).toEqual({ 'b.ipynb': ['z# x = 1', 'y = 1'] });
  });

  it('saves, and leaves it to JupyterLab to ask about a changed file', async () => {
    const lab = new Lab();
    lab.disk.hasHashes = false;
    const { context, type } = await lab.open();
    type('z');
    await Promise.all([context.save(), context.save()]);
    expect(lab.dialogs).toEqual([]);
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
    lab.disk.write(PATH, code('theirs'));
    const saved = context.save();
    await lab.answer('File Changed', 'Overwrite');
    await saved;
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
  });
});

describe('FileAccess beside a server without our extension', () => {
  it('merges what another program has written, as soon as the connection was lost', async () => {
    const lab = new Lab();
    const { context, file, type, texts } = await lab.open();
    lab.disk.compares = false;
    file.hasLostServer();
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    type('z');
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });

  it('does not take for saved what another program writes right after its save', async () => {
    const lab = new Lab();
    const { context, file, type, texts } = await lab.open();
    lab.disk.compares = false;
    file.hasLostServer();
    type('z');
    await saveWhile(lab, context, () => lab.disk.write(PATH, code('z# x = 1', 'theirs')), 'after');
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });
});

describe('FileAccess in a page that is frozen', () => {
  it.each([
    ['arrived', 'after' as const, ['z# x = 1', 'y = 1']],
    ['did not arrive', 'before' as const, ['z# x = 1', 'y = 1']]
  ])('saves again if the request %s and is never answered', async (_, when, saved) => {
    const lab = new Lab();
    const { context, file, type } = await lab.open();
    type('z');
    const put = hold(lab, 'PUT', when);
    const save = context.save();
    await put.held();
    freeze();
    await save;
    expect(lab.disk.texts[PATH]).toEqual(saved);
    expect(file.isBusy).toBe(false);
    expect(context.model.dirty).toBe(false);
    expect(lab.dialogs).toEqual([]);
    put.release(); // much too late
    await rest();
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(saved);
    expect(lab.dialogs).toEqual([]);
  });

  it.each(['GET hash', 'GET content'])('gets over a %s that is never answered', async request => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    type('z');
    lab.disk.write(PATH, code('# x = 1', 'theirs'));
    const look = hold(lab, request);
    const save = context.save();
    await look.held();
    freeze();
    await save;
    expect(texts()).toEqual(['z# x = 1', 'theirs']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });

  it('loads again', async () => {
    const lab = new Lab();
    const { context, texts } = await lab.open();
    lab.disk.write(PATH, code('theirs'));
    const get = hold(lab, 'GET content');
    const loaded = context.revert();
    await get.held();
    freeze();
    await loaded;
    expect(texts()).toEqual(['theirs']);
  });

  it('gets over a rename that is never answered', async () => {
    const lab = new Lab();
    const { context, type } = await lab.open();
    const patch = hold(lab, 'PATCH');
    const renamed = context.rename('b.ipynb');
    await patch.held();
    freeze();
    await expect(renamed).rejects.toThrow('not answered');
    type('z');
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
  });

  it('gets over a check that is never answered, beside a server without hashes', async () => {
    const lab = new Lab();
    lab.disk.hasHashes = false;
    const { context, type } = await lab.open();
    const look = hold(lab, 'GET hash');
    const saved = context.save();
    await look.held();
    freeze();
    type('z');
    await saved;
    expect(lab.disk.texts[PATH]).toEqual(['z# x = 1', 'y = 1']);
  });

  it('knows a text that arrives before it is written again', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    type('a\n');
    const put = hold(lab, 'PUT');
    const saved = context.save();
    await put.held();
    freeze();
    await until(() => lab.disk.requests.includes('GET hash'));
    put.release();
    type('b\n');
    await saved;
    expect(texts()).toEqual(['b\na\n# x = 1', 'y = 1']);
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });
});
