import { Context } from '@jupyterlab/docregistry';
import { NotebookModelFactory, type INotebookModel } from '@jupyterlab/notebook';
import { ContentsManager, type Contents } from '@jupyterlab/services';
import { ServiceManagerMock } from '@jupyterlab/services/lib/testutils';
import type { AgentClient } from '../../src/api/client';
import { watchFiles } from '../../src/bridge/drive';
import { PageCells } from '../../src/bridge/pageCells';
import { FileAccess } from '../../src/bridge/saves';
import type { TabLink } from '../../src/bridge/tab';
import { Disk, code, rest } from './disk';

export const PATH = 'a.ipynb';

interface IOpen {
  context: Context<INotebookModel>;
  file: FileAccess;
  /** Type this before the text of the cell. */
  type: (text: string, at?: number) => void;
  /** The texts of the cells. */
  texts: () => string[];
}

/** JupyterLab's own contents manager and contexts on a disk of the test. */
export class Lab {
  readonly disk = new Disk();
  readonly contents = new ContentsManager({
    defaultDrive: this.disk as unknown as Contents.IDrive
  });
  private readonly _links = new Map<Context<INotebookModel>, TabLink>();
  private readonly _files = watchFiles(this.contents.defaultDrive, this._links, {} as AgentClient);

  /** @param _provider - The contents provider of notebooks, as with jupyter-collaboration. */
  constructor(private readonly _provider?: string) {}

  /** Open a notebook with two cells; its first has been edited and saved. */
  async open(path = PATH): Promise<IOpen> {
    this.disk.write(path, code('x = 1', 'y = 1'));
    const manager = Object.assign(new ServiceManagerMock(), { contents: this.contents });
    const factory = new NotebookModelFactory({});
    const kernelPreference = { shouldStart: false, canStart: false };
    const contentProviderId = this._provider;
    const context = new Context({ manager, factory, path, kernelPreference, contentProviderId });
    await context.initialize(false);
    const cells = new PageCells({
      model: () => context.model,
      views: () => [],
      isServerRun: () => false
    });
    const file = new FileAccess(context, this._files, cells, () => undefined);
    const enqueue = <T>(work: () => Promise<T>): Promise<T> => file.enqueue(work);
    this._links.set(context, { file, enqueue } as unknown as TabLink);
    await until(() => this.disk.requests.includes('checkpoint'));
    await context.sessionContext.ready.catch(() => undefined);
    await rest();
    const shared = context.model.sharedModel;
    const type = (text: string, at = 0): void => shared.getCell(at).updateSource(0, 0, text);
    type('# ');
    await context.save();
    this.disk.requests.length = 0;
    const texts = (): string[] => shared.cells.map(cell => cell.getSource());
    return { context, file, type, texts };
  }

  get dialogs(): string[] {
    const headers = [...document.querySelectorAll('.jp-Dialog-header')];
    return headers.map(({ textContent }) => textContent).filter(Boolean);
  }

  /** Save, and close the message that it has failed. */
  async fails(context: Context<INotebookModel>, reason: string): Promise<void> {
    await expect(context.save()).rejects.toThrow(reason);
    await this.answer(`File Save Error for ${context.path}`, 'Close');
  }

  /** Wait for a dialog with this title, and press a button of it. */
  async answer(title: string, label: string): Promise<void> {
    await until(() => this.dialogs.length > 0);
    expect(this.dialogs).toEqual([title]);
    const buttons = [...document.querySelectorAll<HTMLElement>('.jp-Dialog button')];
    const button = buttons.find(({ textContent }) => textContent.includes(label));
    expect(button).toBeDefined();
    button?.click();
    await until(() => this.dialogs.length === 0);
  }
}

export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await rest();
  }
}

/** A request that is held until the test lets it go. */
export function hold(
  lab: Lab,
  request: string,
  when: 'before' | 'after' = 'before'
): { release: () => void; held: () => Promise<void> } {
  let release!: () => void;
  const released = new Promise<void>(resolve => (release = resolve));
  let isHeld = false;
  lab.disk[when] = now => {
    if (now === request && !isHeld) {
      isHeld = true;
      return released;
    }
    return undefined;
  };
  return { release, held: (): Promise<void> => until(() => isHeld) };
}

/** Save, and call `act` before the file is written, or before the answer to that arrives. */
export async function saveWhile(
  lab: Lab,
  context: Context<INotebookModel>,
  act: () => unknown,
  when: 'before' | 'after' = 'before'
): Promise<void> {
  const put = hold(lab, 'PUT', when);
  const saved = context.save();
  await put.held();
  act();
  put.release();
  await saved;
}

/** The next request of this kind is carried out, and its answer is lost. */
export function loseAnswer(lab: Lab, request: string): void {
  lab.disk.after = now => {
    if (now === request) {
      lab.disk.after = () => undefined;
      throw new Error('the answer is lost');
    }
  };
}

/** The page is frozen, and resumes. */
export function freeze(): void {
  document.dispatchEvent(new Event('freeze'));
  document.dispatchEvent(new Event('resume'));
}
