import type { IStateDB } from '@jupyterlab/statedb';
import type { Mode } from '../api/protocol';
import { inTab } from '../storage';
import type { IModelChoice } from './models';

const STATE = 'jupyter-agent:assistant';

/** What survives a page load. */
export interface IRemembered extends IModelChoice {
  conversation: string;
  modes: Readonly<Record<string, Mode>>;
  /** Earlier questions, newest last. */
  asked: string[];
}

/** The state of the last page load. */
export class Remembered {
  constructor(private readonly _stateDB: IStateDB | null) {}

  async read(): Promise<Partial<IRemembered>> {
    const saved = (await this._stateDB?.fetch(STATE)) as Partial<IRemembered> | undefined;
    const ofTab = inTab.read(STATE); // JupyterLab saves its state with a delay
    return { ...saved, ...(ofTab ? { conversation: ofTab } : {}) };
  }

  write(remembered: IRemembered): void {
    inTab.write(STATE, remembered.conversation);
    void this._stateDB?.save(STATE, { ...remembered });
  }
}
