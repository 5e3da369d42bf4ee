import type { Contents } from '@jupyterlab/services';
import type { AgentClient } from '../api/client';
import type { Context } from './context';
import type { IFiles } from './fileRequests';
import { LOOK, orErrorAfterFreeze } from './fileRequests';
import { RoomFile } from './roomFile';
import type { TabLink } from './tab';

/** Marks a request that has passed here: a contents provider hands it to the drive once more. */
const PASSED = Symbol('jupyter_agent');

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
  const [get, save] = [drive.get.bind(drive), drive.save.bind(drive)];
  const own: IFiles = {
    get: (path, options) => get(path, passed(options)),
    save: (path, options) => save(path, passed(options)),
    rename: drive.rename.bind(drive),
    createCheckpoint: drive.createCheckpoint.bind(drive),
    restoreCheckpoint: drive.restoreCheckpoint.bind(drive)
  };
  const fileOf = (path: string): TabLink['file'] => {
    const files = [...links.values()].flatMap(({ file }) => (file?.isAt(path) ? [file] : []));
    return files.find(file => file.isSaving) ?? files[0] ?? null;
  };
  const roomOf = (path: string): RoomFile | null => {
    const context = [...links.keys()].find(open => open.path === path);
    return context?.model.collaborative ? new RoomFile(context, agent) : null;
  };

  drive.get = (path, options = {}) => {
    if (PASSED in options) {
      return get(path, options);
    }
    const request = (at = path): Promise<Contents.IModel> => own.get(at, options);
    const isOfContext = options.hash === true && 'contentProviderId' in options;
    const file = isOfContext ? fileOf(path) : null;
    if (options.content === false) {
      return file?.look(path, request) ?? roomOf(path)?.look(request) ?? request();
    }
    return file && options.type === 'notebook' ? file.load(request) : request();
  };

  drive.save = (path, options = {}) => {
    const request = (): Promise<Contents.IModel> => own.save(path, options);
    if (options.type !== 'notebook') {
      return request();
    }
    const file = PASSED in options ? null : fileOf(path);
    if (file) {
      return file.write(path, options, request);
    }
    const isOfRoom = 'contentProviderId' in options && options.contentProviderId;
    const look = (): Promise<Contents.IModel> => own.get(path, LOOK);
    return isOfRoom ? save(path, options) : (roomOf(path)?.write(look, request) ?? request());
  };

  // The file of a notebook is not saved while it, or a folder that contains it, is renamed.
  drive.rename = (path, newPath) =>
    [...links]
      .filter(([context]) => context.path === path || context.path.startsWith(`${path}/`))
      .reduceRight<() => Promise<Contents.IModel>>(
        (work, [, link]) =>
          () =>
            link.enqueue(work),
        () => orErrorAfterFreeze(own.rename(path, newPath))
      )();

  // JupyterLab makes a checkpoint after each save by the user. Jupyter's server copies its file back as it is, even if
  // it is not complete yet.
  drive.createCheckpoint = path => {
    const create = (at = path): Promise<Contents.ICheckpointModel> => own.createCheckpoint(at);
    return fileOf(path)?.createCheckpoint(create) ?? create();
  };
  drive.restoreCheckpoint = (path, id) => {
    const restore = (): Promise<void> => own.restoreCheckpoint(path, id);
    return fileOf(path)?.restore(restore) ?? restore();
  };
  return own;
}

function passed<Options extends object>(options: Options | undefined): Options {
  return { ...options, [PASSED]: true } as unknown as Options;
}
