import type { Contents } from '@jupyterlab/services';
import { code, rest } from './disk';
import { Lab, PATH, hold, until } from './lab';

describe('FileAccess beside renames and loads', () => {
  it('lets a rename wait for the save before it, and later saves for the rename', async () => {
    const lab = new Lab();
    const { context, type } = await lab.open();
    type('z');
    const put = hold(lab, 'PUT');
    const saves = [context.save()];
    await put.held();
    const renamed = lab.contents.rename(PATH, 'b.ipynb');
    saves.push(context.save());
    await rest();
    expect(lab.disk.requests).toEqual(['PUT']);
    type('!');
    put.release();
    await Promise.all([...saves, renamed]);
    expect(lab.disk.requests).toEqual(['PUT', 'PATCH', 'PUT']);
    expect(lab.disk.texts).toEqual({ 'b.ipynb': ['!z# x = 1', 'y = 1'] });
    expect(context.path).toBe('b.ipynb');
    expect(context.model.dirty).toBe(false);
    await context.save();
    expect(context.contentsModel?.path).toBe('b.ipynb');
    expect(lab.dialogs).toEqual([]);
  });

  it('loads a file for JupyterLab, and knows it', async () => {
    const lab = new Lab();
    const { context, file, type, texts } = await lab.open();
    type('z');
    const { hash } = lab.disk.write(PATH, code('theirs'));
    await context.revert();
    expect(texts()).toEqual(['theirs']);
    expect(file.hash).toBe(hash);
    expect(file.isAhead).toBe(false);
    type('z');
    lab.disk.requests.length = 0;
    await context.save();
    expect(lab.disk.requests).toEqual(['PUT']);
  });

  it('loads before the next save reads the text', async () => {
    const lab = new Lab();
    const { context, type } = await lab.open();
    lab.disk.write(PATH, code('theirs'));
    type('z');
    const loaded = context.revert();
    const saved = context.save();
    await Promise.all([loaded, saved]);
    expect(lab.disk.texts[PATH]).toEqual(['theirs']);
    expect(lab.dialogs).toEqual([]);
  });

  it('loads a restored checkpoint before a save that was under way writes again', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    await context.createCheckpoint();
    type('z');
    await context.save();
    type('!');
    const put = hold(lab, 'PUT');
    const saved = context.save();
    await put.held();
    const restored = context.restoreCheckpoint().then(() => context.revert());
    await until(() => lab.disk.requests.includes('restore'));
    put.release();
    await Promise.all([saved, restored]);
    expect(texts()).toEqual(['# x = 1', 'y = 1']);
    await context.save();
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });

  it('leaves alone what others ask for and write', async () => {
    const lab = new Lab();
    const { context, type, texts } = await lab.open();
    const { hash } = lab.disk.write(PATH, code('# x = 1', 'theirs'));
    type('z');
    const get = (): Promise<Contents.IModel> =>
      lab.contents.get(PATH, { content: false, hash: true });
    expect(await get()).toHaveProperty('hash', hash);
    const content = code('# x = 1', 'of an extension');
    await lab.contents.save(PATH, { type: 'notebook', format: 'json', content });
    expect(lab.disk.texts[PATH]).toEqual(['# x = 1', 'of an extension']);
    await lab.contents.get(PATH, { type: 'notebook', content: true, hash: true });
    await context.save();
    expect(texts()).toEqual(['z# x = 1', 'of an extension']);
    expect(lab.disk.texts[PATH]).toEqual(texts());
  });
});

describe('FileAccess beside a server without hashes', () => {
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

describe('FileAccess in a page that is frozen', () => {
  /** The page is frozen, resumes, and some time passes. */
  const freeze = (): void => {
    document.dispatchEvent(new Event('freeze'));
    document.dispatchEvent(new Event('resume'));
  };

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
});
