import type { Contents } from '@jupyterlab/services';
import { code, rest } from './disk';
import { Lab, PATH, hold, saveWhile } from './lab';

describe.each([undefined, 'rtc'])(
  'FileAccess beside renames and loads, with the contents provider %s',
  provider => {
    it('lets a rename wait for the save before it, and later saves for the rename', async () => {
      const lab = new Lab(provider);
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
      const lab = new Lab(provider);
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
      const lab = new Lab(provider);
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
      const lab = new Lab(provider);
      const { context, type, texts } = await lab.open();
      await context.createCheckpoint();
      type('z');
      await context.save();
      type('!');
      const put = hold(lab, 'PUT');
      const saved = context.save();
      await put.held();
      const restored = context.restoreCheckpoint().then(() => context.revert());
      await rest();
      put.release();
      await Promise.all([saved, restored]);
      expect(texts()).toEqual(['# x = 1', 'y = 1']);
      await context.save();
      expect(lab.disk.texts[PATH]).toEqual(texts());
    });

    it('leaves alone what others ask for and write', async () => {
      const lab = new Lab(provider);
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

    it('loads a file during a save', async () => {
      const lab = new Lab(provider);
      const { context, type, texts } = await lab.open();
      type('z');
      const put = hold(lab, 'PUT');
      const saved = context.save();
      await put.held();
      const loaded = context.revert();
      put.release();
      await Promise.all([saved, loaded]);
      expect(texts()).toEqual(['z# x = 1', 'y = 1']);
      type('!');
      await context.save();
      expect(lab.disk.texts[PATH]).toEqual(['!z# x = 1', 'y = 1']);
    });

    it('restores a checkpoint only when it is complete, and not of a renamed file', async () => {
      const lab = new Lab(provider);
      const { context, type, texts } = await lab.open();
      await context.createCheckpoint();
      const patch = hold(lab, 'PATCH');
      const renamed = context.rename('b.ipynb');
      await patch.held();
      type('z');
      const saved = context.save().then(() => context.createCheckpoint());
      await rest();
      patch.release();
      await renamed;
      await saved;
      const checkpoint = hold(lab, 'checkpoint');
      type('y');
      const created = context.save().then(() => context.createCheckpoint());
      await checkpoint.held();
      const restored = context.restoreCheckpoint('checkpoint').then(() => context.revert());
      await rest();
      expect(lab.disk.requests).not.toContain('restore');
      checkpoint.release();
      await Promise.all([created, restored]);
      expect(texts()).toEqual(['yz# x = 1', 'y = 1']);
      expect(lab.disk.texts).toEqual({ 'b.ipynb': texts() });
    });

    it('loads a restored checkpoint before a save that is requested meanwhile', async () => {
      const lab = new Lab(provider);
      const { context, type, texts } = await lab.open();
      await context.createCheckpoint();
      type('z');
      await context.save();
      const restore = hold(lab, 'restore', 'after');
      const restored = context.restoreCheckpoint().then(() => context.revert());
      await restore.held();
      const saved = context.save();
      await rest();
      restore.release();
      await Promise.all([restored, saved]);
      expect(texts()).toEqual(['# x = 1', 'y = 1']);
      expect(lab.disk.texts[PATH]).toEqual(texts());
    });

    it('keeps typing unsaved if an extension reads the file and edits a cell at once', async () => {
      const lab = new Lab(provider);
      const { file, type, texts } = await lab.open();
      type('typed ');
      await lab.contents
        .get(PATH, { type: 'notebook', hash: true, content: true })
        .then(() => type('formatted ', 1));
      await rest();
      expect(file.isAhead).toBe(true);
      lab.disk.write(PATH, code('# x = 1', 'y = 1', 'theirs'));
      await file.reconcile(() => true);
      expect(texts()).toEqual(['typed # x = 1', 'formatted y = 1', 'theirs']);
    });

    it('saves as ever if an extension asks for the hash as a save starts', async () => {
      const lab = new Lab(provider);
      const { context, type, texts } = await lab.open();
      context.saveState.connect((_, state) => {
        if (state === 'started') {
          void lab.contents.get(PATH, { content: false, hash: true });
        }
      });
      type('z');
      await saveWhile(lab, context, () => lab.disk.write(PATH, code('# x = 1', 'theirs')));
      expect(texts()).toEqual(['z# x = 1', 'theirs']);
      expect(lab.disk.texts[PATH]).toEqual(texts());
    });

    it('saves the second of two notebooks at one path', async () => {
      const lab = new Lab(provider);
      await lab.open();
      const { context, file, type } = await lab.open('b.ipynb');
      await lab.disk.delete(PATH);
      await context.rename(PATH);
      type('z');
      await context.save();
      expect(lab.disk.texts).toEqual({ [PATH]: ['z# x = 1', 'y = 1'] });
      expect(context.model.dirty).toBe(false);
      expect(file.isAhead).toBe(false);
    });

    it('overwrites nothing with a notebook that is closed', async () => {
      const lab = new Lab(provider);
      const { context, type } = await lab.open();
      type('z');
      const put = hold(lab, 'PUT');
      const saved = context.save();
      await put.held();
      context.dispose();
      lab.disk.write(PATH, code('# x = 1', 'theirs'));
      put.release();
      await expect(saved).rejects.toThrow('Nothing was overwritten');
      await lab.answer(`File Save Error for ${PATH}`, 'Close');
      expect(lab.disk.texts[PATH]).toEqual(['# x = 1', 'theirs']);
    });
  }
);
