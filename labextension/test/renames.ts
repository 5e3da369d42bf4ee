import { Signal } from '@lumino/signaling';
import type { Contents } from '@jupyterlab/services';
import { Renames } from '../src/bridge/renames';
import type { ITabBridge } from '../src/tokens';

/** A page in which notebooks and folders are renamed. */
export class RenamingPage {
  private readonly _bridge = {} as ITabBridge;
  private readonly _renamed = new Signal<ITabBridge, { former: string; notebook: string }>(
    this._bridge
  );
  private readonly _changed = new Signal<Contents.IManager, Contents.IChangedArgs>(
    {} as Contents.IManager
  );
  readonly renames = new Renames({ renamed: this._renamed }, { fileChanged: this._changed });

  /** A notebook that is open here got another path: here, or in another page of its room. */
  renameOpen(former: string, notebook: string): void {
    this._renamed.emit({ former, notebook });
  }

  /** A file or folder was renamed in the file browser. */
  renameFile(former: string, path: string): void {
    this._changed.emit({ type: 'rename', oldValue: { path: former }, newValue: { path } });
  }
}
