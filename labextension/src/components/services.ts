import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import type { ISentRequest } from '../api/protocol';
import type { IInstructionsState } from '../chat/instructions';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Assistant, IAssistantState } from '../chat/assistant';
import type { IConversationState } from '../chat/conversationState';
import type { Denial } from '../chat/denial';
import type { IListingState } from '../chat/listing';
import type { LongRuns, RunWatch } from '../chat/longRuns';
import type { IModelsState } from '../chat/models';
import type { Obstacle } from '../chat/obstacle';
import type { ModeOffer } from '../chat/modeOffer';
import type { IQueueState } from '../chat/queue';
import type { ISharing, Sharing } from '../chat/sharing';
import type { ConversationUsage, IUsageState } from '../chat/usage';
import type { Completion, ICompletionState } from '../composer/completion';
import type { CopiedCells } from '../composer/copiedCells';
import type { IDraft } from '../composer/draft';
import type { IQuestionEdit, QuestionEdits } from '../composer/questionEdits';
import type { Slash } from '../composer/slash';
import type { ChangeWalk, IChangeWalk } from '../review/changeWalk';
import type { FileConflicts, IFileConflict } from '../review/fileConflicts';
import type { IPending, Reviews } from '../review/reviews';
import type { IUnsavedText, UnsavedTexts } from '../review/unsavedTexts';
import type { StaleCells, Staleness } from '../review/staleness';
import type { Verifications, VerifiedNotebooks } from '../review/verifications';
import type { Store } from '../store';
import type { FindTool } from '../wording/toolPhrases';

/** The services that the panel's components need from the page. */
export interface IServices {
  assistant: Assistant;
  /** Completions for `@` and `/`. */
  completion: Completion;
  slash: Slash;
  usage: ConversationUsage;
  longRuns: RunWatch;
  staleness: Staleness;
  verifications: Verifications;
  offer: ModeOffer;
  denial: Denial;
  reviews: Reviews;
  walk: ChangeWalk;
  sharing: Sharing;
  conflicts: FileConflicts;
  unsaved: UnsavedTexts;
  obstacle: Obstacle;
  /** The requests sent to the model in a turn. Rejects with RequestError. */
  requestsOf: (turnId: string) => Promise<readonly ISentRequest[]>;
  notebooks: OpenNotebooks;
  copied: CopiedCells;
  edits: QuestionEdits;
  /** Renders text by a model: untrusted, and without loading anything from elsewhere. */
  rendermime: IRenderMimeRegistry;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
  /** Open a file of the server in the main area. */
  openFile: (path: string) => void;
  /** The label of a command's shortcut; empty if unset. */
  keysOf: (command: string) => string;
  /** Open the settings of the assistant. */
  openSettings: () => void;
  /** Focus the message field. */
  focusMessage: () => void;
  /** Give the focus back to the notebook. */
  leave: () => void;
}

export const Services = React.createContext<IServices | null>(null);

export function useServices(): IServices {
  const services = React.useContext(Services);
  if (!services) {
    throw new Error('The panel is rendered outside of its services.');
  }
  return services;
}

/** Rendered immediately: it includes typed text, and React reverts a keystroke that is not rendered. */
export function useAssistant(): IAssistantState {
  const { assistant } = useServices();
  return useStore(assistant, atOnce);
}

/** The draft; rendered immediately, for the same reason. */
export function useDraft(): IDraft {
  return useStore(useServices().assistant.draft, atOnce);
}

/** The edit of an earlier question; rendered immediately, for the same reason. */
export function useQuestionEdit(id: string): IQuestionEdit | undefined {
  return useStore(useServices().edits, atOnce)[id];
}

/** The queued questions. */
export function useQueue(): IQueueState {
  return useStore(useServices().assistant.queue, eachFrame);
}

/** The instructions for answers. */
export function useInstructions(): IInstructionsState {
  return useStore(useServices().assistant.instructions, eachFrame);
}

/** The available models and the chosen one. */
export function useModels(): IModelsState {
  return useStore(useServices().assistant.models, eachFrame);
}

/** Looks up the assistant's tools. */
export function useTools(): FindTool {
  const { tools } = useServices().assistant;
  useStore(tools, eachFrame);
  return tools.find;
}

/** The list of conversations. */
export function useListing(): IListingState {
  return useStore(useServices().assistant.listing, eachFrame);
}

/** Completions for the word being typed. */
export function useCompletion(): ICompletionState {
  return useStore(useServices().completion, atOnce);
}

/** Rendered at most once per animation frame, however often it changes. */
export function useConversation(): IConversationState {
  return useStore(useAssistant().conversation, eachFrame);
}

/** Usage of the conversation in front. */
export function useConversationUsage(): IUsageState {
  return useStore(useServices().usage, eachFrame);
}

/** Runs that outlived their turns. */
export function useLongRuns(): LongRuns {
  return useStore(useServices().longRuns, eachFrame);
}

/** Whether to offer a more permissive mode. */
export function useModeOffer(): boolean {
  return useStore(useServices().offer, atOnce);
}

/** Whether the draft is the reason to deny the open question. */
export function useIsReason(): boolean {
  return useStore(useServices().denial, atOnce);
}

/** The path of the notebook in front, or null if it is not one of our server's. */
export function useNotebookInFront(): string | null {
  const { notebooks } = useServices();
  const subscribe = React.useCallback(
    (render: () => void) => {
      notebooks.moved.connect(render);
      return () => void notebooks.moved.disconnect(render);
    },
    [notebooks]
  );
  return React.useSyncExternalStore(subscribe, () => notebooks.place?.notebook ?? null);
}

/** How much models may see. */
export function useSharing(): ISharing {
  return useStore(useServices().sharing, eachFrame);
}

/** The cells whose versions in page and file could not be merged. */
export function useFileConflicts(): readonly IFileConflict[] {
  return useStore(useServices().conflicts, atOnce);
}

/** Texts that were not saved when the server ended, and can be restored. */
export function useUnsavedTexts(): readonly IUnsavedText[] {
  return useStore(useServices().unsaved, atOnce);
}

/** Why the assistant cannot work in notebooks; empty if it can. */
export function useObstacle(): string {
  return useStore(useServices().obstacle, eachFrame);
}

/** The cells that are out of date, by notebook. */
export function useStaleCells(): StaleCells {
  return useStore(useServices().staleness, eachFrame);
}

/** Which notebooks were verified. */
export function useVerified(): VerifiedNotebooks {
  return useStore(useServices().verifications, eachFrame);
}

/** The changes waiting for review, by notebook. */
export function usePending(): ReadonlyMap<string, IPending> {
  return useStore(useServices().reviews, eachFrame);
}

/** The changes to review, in order, and the current one. */
export function useChangeWalk(): IChangeWalk {
  return useStore(useServices().walk, eachFrame);
}

/** Schedules the rendering of a change, and cancels it. */
type Pace = (render: () => void) => { schedule: () => void; cancel: () => void };

const atOnce: Pace = render => ({ schedule: render, cancel: () => undefined });

const eachFrame: Pace = render => {
  let frame = 0;
  return {
    schedule: () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        render();
      });
    },
    cancel: () => cancelAnimationFrame(frame)
  };
};

function useStore<State>(store: Store<State>, pace: Pace): State {
  const subscribe = React.useCallback(
    (render: () => void) => {
      const { schedule, cancel } = pace(render);
      const onChanged = (): void => schedule();
      store.changed.connect(onChanged);
      return () => {
        cancel();
        store.changed.disconnect(onChanged);
      };
    },
    [store, pace]
  );
  return React.useSyncExternalStore(subscribe, () => store.state);
}

/** Seconds since the component was first shown; counts only while `running`. */
export function useSeconds(running: boolean): number {
  const [clock] = React.useState(() => ({ start: Date.now(), seconds: 0 }));
  const subscribe = React.useCallback(
    (render: () => void) => {
      const tick = (): void => {
        clock.seconds = Math.floor((Date.now() - clock.start) / 1000);
        render();
      };
      const timer = running ? setInterval(tick, 1000) : 0;
      return () => clearInterval(timer);
    },
    [clock, running]
  );
  return React.useSyncExternalStore(subscribe, () => clock.seconds);
}
