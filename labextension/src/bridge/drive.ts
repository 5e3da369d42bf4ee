import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { AgentClient } from '../api/client';
import { RoomFile } from './roomFile';
import type { TabLink } from './tab';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The methods that are replaced here: the only ones of JupyterLab that this extension changes. */
export type IFiles = Pick<Contents.IDrive, 'get' | 'save' | 'rename'>;

/**
 * Let the requests for the file of an open notebook pass through its `FileAccess`, or `RoomFile`, whoever makes them.
 *
 * JupyterLab's contents providers are made for this, but a type of document has one slot for a provider, and
 * jupyter-collaboration takes it.
 *
 * @returns The drive as it was, for requests of our own.
 */
export function watchFiles(
  drive: IFiles,
  links: ReadonlyMap<Context, TabLink>,
  agent: AgentClient
): IFiles {
  const own: IFiles = {
    get: drive.get.bind(drive),
    save: drive.save.bind(drive),
    rename: drive.rename.bind(drive)
  };
  const fileOf = (path: string): TabLink['file'] => {
    const files = [...links.values()].map(({ file }) => file);
    return files.find(file => file?.isAt(path)) ?? null;
  };
  const roomOf = (path: string): RoomFile | null => {
    const context = [...links.keys()].find(open => open.path === path);
    return context?.model.collaborative ? new RoomFile(context, agent) : null;
  };

  drive.get = (path, options = {}) => {
    const get = (): Promise<Contents.IModel> => own.get(path, options);
    const file = fileOf(path);
    if (options.content === false) {
      const hash = options.hash ? file : null;
      return hash?.look(path, get) ?? roomOf(path)?.look(get) ?? get();
    }
    const isLoad = options.type === 'notebook' && options.hash === true;
    return file && isLoad ? file.load(get) : get();
  };

  drive.save = (path, options = {}) => {
    const save = (): Promise<Contents.IModel> => own.save(path, options);
    if (options.type !== 'notebook') {
      return save();
    }
    const file = fileOf(path);
    if (file) {
      return file.write(path, options, save);
    }
    const isOfRoom = 'contentProviderId' in options && options.contentProviderId;
    const look = (): Promise<Contents.IModel> => own.get(path, { content: false, hash: true });
    return isOfRoom ? save() : (roomOf(path)?.write(look, save) ?? save());
  };

  // The file of a notebook is not saved while it, or a folder that contains it, is renamed.
  drive.rename = (path, newPath) =>
    [...links]
      .filter(([context]) => context.path === path || context.path.startsWith(`${path}/`))
      .reduceRight<() => Promise<Contents.IModel>>(
        (work, [, link]) =>
          () =>
            link.enqueue(work),
        () => own.rename(path, newPath)
      )();
  return own;
}
