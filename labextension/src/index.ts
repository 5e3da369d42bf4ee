import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { IEditorExtensionRegistry, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { UUID } from '@lumino/coreutils';
import { Announcements } from './api/announcements';
import { AgentClient } from './api/client';
import type { Mode } from './api/protocol';
import { TabBridge } from './bridge/bridge';
import { unifyLineEnds } from './bridge/lineEnds';
import { NotebookCode } from './bridge/notebookCode';
import { OpenNotebooks } from './bridge/openNotebooks';
import { Renames } from './bridge/renames';
import { Assistant } from './chat/assistant';
import { Instructions } from './chat/instructions';
import { Listing } from './chat/listing';
import { Models } from './chat/models';
import { RunWatch } from './chat/longRuns';
import { Denial } from './chat/denial';
import { ModeOffer } from './chat/modeOffer';
import { Obstacle } from './chat/obstacle';
import { Sharing } from './chat/sharing';
import { Tools } from './chat/tools';
import { ConversationUsage } from './chat/usage';
import { Completion } from './composer/completion';
import { CopiedCells } from './composer/copiedCells';
import { Draft } from './composer/draft';
import { Mentions } from './composer/mentions';
import { QuestionEdits } from './composer/questionEdits';
import { Slash } from './composer/slash';
import type { OwnCommand } from './composer/slash';
import { CommandIDs, addCommands } from './panel/commands';
import { ErrorButtons } from './panel/errorButtons';
import { introduce } from './panel/firstStart';
import { News } from './panel/news';
import { OtherAgents } from './panel/otherAgents';
import { keepNotificationsBeside } from './panel/notificationPlace';
import { AssistantPanel } from './panel/panel';
import { widenPanel } from './panel/panelWidth';
import { addReviewCommands } from './panel/reviewCommands';
import { actions } from './panel/slashActions';
import { StatusItem } from './panel/statusItem';
import { addToolbarButton } from './panel/toolbarButton';
import { CellPrompts } from './prompt/cellPrompts';
import { ChangeWalk } from './review/changeWalk';
import { FileConflicts } from './review/fileConflicts';
import { Marks } from './review/marks/marks';
import { ReviewActions } from './review/reviewActions';
import { Reviews } from './review/reviews';
import { Staleness } from './review/staleness';
import { UnsavedTexts } from './review/unsavedTexts';
import { Verifications } from './review/verifications';
import { IAssistant, ITabBridge } from './tokens';

/** Lets the server work in the notebooks open on this page. */
const bridge: JupyterFrontEndPlugin<ITabBridge> = {
  id: 'jupyter-agent:tab-bridge',
  description: 'Lets the assistant on the server work in the notebooks that are open here.',
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry],
  optional: [IDocumentManager],
  provides: ITabBridge,
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    editors: IEditorExtensionRegistry,
    documents: IDocumentManager | null
  ) => {
    const autosave = (): boolean => documents?.autosave ?? true;
    unifyLineEnds(notebooks, editors);
    return new TabBridge(notebooks, app.serviceManager, UUID.uuid4(), autosave);
  }
};

/** The side panel with its commands. */
const panel: JupyterFrontEndPlugin<IAssistant> = {
  id: 'jupyter-agent:plugin',
  description: 'The side panel in which one talks to the assistant.',
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry, IEditorLanguageRegistry, ITabBridge],
  optional: [
    ITranslator,
    ICommandPalette,
    ILayoutRestorer,
    ISettingRegistry,
    IStateDB,
    IStatusBar,
    IToolbarWidgetRegistry
  ],
  provides: IAssistant,
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    languages: IEditorLanguageRegistry,
    tabBridge: ITabBridge,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    settingRegistry: ISettingRegistry | null,
    stateDB: IStateDB | null,
    statusBar: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null
  ) => {
    const trans = (translator ?? nullTranslator).load('jupyter_agent');
    const activate = (notebook: NotebookPanel): void => app.shell.activateById(notebook.id);
    const { contents } = app.serviceManager;
    const notebooks = new OpenNotebooks(tracker, activate, path => contents.driveName(path));
    const client = new AgentClient(app.serviceManager.serverSettings);
    const announcements = new Announcements(app.serviceManager.events);
    const renames = new Renames(tabBridge, contents);
    const draft = new Draft(notebooks, renames);
    const assistant = new Assistant(
      client,
      tabBridge.client,
      announcements,
      stateDB,
      draft,
      new Models(client),
      new Instructions(client),
      new Listing(client),
      new Tools(client, trans),
      renames
    );
    const { baseUrl } = app.serviceManager.serverSettings;
    const conflicts = new FileConflicts(tabBridge, renames, `jupyter-agent:conflicts:${baseUrl}`);
    const unsaved = new UnsavedTexts(tracker);
    const usage = new ConversationUsage(client, assistant);
    const slash = new Slash(actions(assistant, usage, trans), trans);
    const mentions = new Mentions(draft, notebooks, contents, client, trans);
    const reviews = new Reviews(client, notebooks, assistant, announcements);
    const code = new NotebookCode(tracker);
    const walk = new ChangeWalk(reviews, notebooks, code, path => openNotebook(app, path));
    const review = new ReviewActions(reviews, walk, notebooks, trans);
    const marks = new Marks({
      tracker,
      assistant,
      reviews,
      walk,
      actions: review,
      languages,
      trans
    });
    const sharing = new Sharing(client, notebooks, assistant);
    const widget = new AssistantPanel(
      {
        assistant,
        completion: new Completion(mentions, slash),
        slash,
        usage,
        longRuns: new RunWatch(client, assistant),
        staleness: new Staleness(client, notebooks, assistant, renames),
        verifications: new Verifications(client, code, assistant, renames),
        offer: new ModeOffer(stateDB),
        denial: new Denial(assistant),
        reviews,
        walk,
        sharing,
        conflicts,
        unsaved,
        obstacle: new Obstacle(client),
        requestsOf: turnId => client.requests(turnId),
        notebooks,
        copied: new CopiedCells(notebooks),
        edits: new QuestionEdits(),
        languages,
        trans,
        openFile: path => void app.commands.execute('docmanager:open', { path }),
        keysOf: name => keysOf(app.commands, `jupyter-agent:${name}`),
        openSettings: () =>
          void app.commands.execute('settingeditor:open', { query: trans.__('Assistant') }),
        focusMessage: () => void widget.focusMessage(),
        leave: () => {
          if (tracker.currentWidget) {
            activate(tracker.currentWidget);
          }
        }
      },
      async () => (await import('./panel/sanitizer')).untrusting(rendermime, translator)
    );
    app.shell.add(widget, 'right', { rank: 500, type: 'Assistant' });
    restorer?.add(widget, widget.id);
    keepNotificationsBeside(widget.node);
    const show = (): void => app.shell.activateById(widget.id);
    new News(assistant, conflicts, unsaved, widget, show, trans);
    new OtherAgents(client, assistant, announcements, show, trans);
    void app.restored.then(() => widenPanelOnce(widget, stateDB));
    const prompts = new CellPrompts({
      tracker,
      assistant,
      notebooks,
      showPanel: () => void app.commands.execute(CommandIDs.open),
      trans
    });
    addCommands({ app, assistant, panel: widget, prompts, palette, trans });
    addReviewCommands({ commands: app.commands, walk, actions: review, palette, trans });
    const errors = new ErrorButtons(
      tracker,
      ({ notebook, cell_id }) =>
        void app.commands.execute(CommandIDs.send, {
          text: trans.__('Find out why this cell fails, and fix it.'),
          notebook,
          cells: [cell_id]
        }),
      trans
    );
    const open = (): void => void app.commands.execute(CommandIDs.open);
    if (toolbars) {
      addToolbarButton(toolbars, app.shell, widget, open, trans);
    }
    if (statusBar) {
      const item = new StatusItem(assistant, open, trans);
      statusBar.registerStatusItem('jupyter-agent:status', item.placed);
    }
    void app.restored.then(() => assistant.restore());
    const followed = followSettings(settingRegistry, assistant, slash, errors, marks, sharing);
    if (PageConfig.getOption('jupyterAgentOpen') === 'true') {
      void app.restored.then(() => app.shell.activateById(widget.id));
    } else {
      void Promise.all([followed, app.restored]).then(
        ([settings]) => settings && introduce(settings, widget, open, trans)
      );
    }
    return assistant;
  }
};

/** The label of a command's shortcut on this machine; empty if unset. */
function keysOf({ keyBindings }: CommandRegistry, command: string): string {
  const binding = keyBindings.find(one => one.command === command);
  return binding ? CommandRegistry.formatKeystroke(binding.keys) : '';
}

/** Open a notebook in the main area; resolves when its cells have loaded. */
async function openNotebook(app: JupyterFrontEnd, path: string): Promise<void> {
  const opened = (await app.commands.execute('docmanager:open', { path })) as
    NotebookPanel | undefined;
  await opened?.context.ready;
}

/** Widen the panel when it is first shown in this workspace; after that the user controls its width. */
async function widenPanelOnce(widget: AssistantPanel, stateDB: IStateDB | null): Promise<void> {
  const key = 'jupyter-agent:width';
  if (await stateDB?.fetch(key)) {
    return;
  }
  const onShown = (): void => {
    widget.shown.disconnect(onShown);
    requestAnimationFrame(() => widenPanel(widget)); // after JupyterLab's layout
    void stateDB?.save(key, true);
  };
  widget.shown.connect(onShown);
  if (widget.isVisible) {
    onShown();
  }
}

async function followSettings(
  registry: ISettingRegistry | null,
  assistant: Assistant,
  slash: Slash,
  errors: ErrorButtons,
  marks: Marks,
  sharing: Sharing
): Promise<ISettingRegistry.ISettings | undefined> {
  const settings = await registry?.load(panel.id);
  const apply = (): void => {
    assistant.defaultMode = (settings?.composite.mode as Mode | undefined) ?? 'ask';
    assistant.instructions.own = (settings?.composite.instructions as string | undefined) ?? '';
    slash.own = (settings?.composite.commands as unknown as OwnCommand[] | undefined) ?? [];
    marks.open = settings?.composite.changes !== 'bar';
    errors.shown = settings?.composite.errorButton !== false;
  };
  settings?.changed.connect(apply);
  apply();
  if (settings) {
    sharing.follow(settings);
  }
  return settings;
}

export * from './tokens';
export default [bridge, panel];
