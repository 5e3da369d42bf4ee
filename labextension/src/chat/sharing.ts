import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { AgentClient } from '../api/client';
import type { Share } from '../api/protocol';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import { Store } from '../store';
import type { Assistant } from './assistant';

/** From the most permissive to the strictest. */
export const SHARES: readonly Share[] = ['all', 'no-outputs', 'code-only'];

/** The settings of how much models may see; the strictest applies. Never changed in place. */
export interface ISharing {
  /** Set by the user, for all notebooks. */
  readonly own: Share;
  /** Set in the notebook in front, for everyone who works in it; null if there isn't one. */
  readonly notebook: Share | null;
  /** Set by the administrator. */
  readonly ceiling: Share;
  /** The one that applies. */
  readonly effective: Share;
  /** Cells of the notebook in front that are never sent. */
  readonly hidden: number;
}

/** How much of the notebook in front is shared with models, and the settings that decide it. */
export class Sharing extends Store<ISharing> {
  constructor(
    private readonly _client: AgentClient,
    private readonly _notebooks: OpenNotebooks,
    private readonly _assistant: Assistant
  ) {
    super({ own: 'all', notebook: null, ceiling: 'all', effective: 'all', hidden: 0 });
    _notebooks.moved.connect(() => this._refresh());
    _assistant.happened.connect((_, event) => {
      if (event === 'turnEnded') {
        this._refresh();
      }
    });
  }

  /** Read the user's choice from their settings, now and whenever it changes. */
  follow(settings: ISettingRegistry.ISettings): void {
    this._settings = settings;
    settings.changed.connect(() => this._refresh());
    this._refresh();
    void this._readCeiling();
  }

  /** Set the user's choice for all notebooks. */
  async chooseOwn(share: Share): Promise<void> {
    await this._settings?.set('share', share);
  }

  /** Set the choice for the notebook in front; it is stored in the notebook. */
  chooseForNotebook(share: Share): void {
    this._notebooks.setShare(share);
    this._refresh();
  }

  private async _readCeiling(): Promise<void> {
    this._ceiling = await this._client.share().catch(() => this._ceiling); // shown as `problem`
    this._refresh();
  }

  private _refresh(): void {
    const own = (this._settings?.composite.share as Share | undefined) ?? 'all';
    const inFront = this._notebooks.sharing();
    const levels = [own, inFront?.share ?? 'all', this._ceiling].map(share =>
      SHARES.indexOf(share)
    );
    this._assistant.models.share = own;
    this.set({
      own,
      notebook: inFront?.share ?? null,
      ceiling: this._ceiling,
      effective: SHARES[Math.max(...levels)],
      hidden: inFront?.hidden ?? 0
    });
  }

  private _settings: ISettingRegistry.ISettings | null = null;
  private _ceiling: Share = 'all';
}
