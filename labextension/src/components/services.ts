import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';
import type { Assistant, IAssistantState } from '../assistant';
import type { IConversationState } from '../conversation';
import type { OpenNotebooks } from '../notebooks';

/** What the components of the panel need from the page. */
export interface IServices {
  assistant: Assistant;
  notebooks: OpenNotebooks;
  /** Renders what a model wrote: untrusted, and nothing is loaded from elsewhere. */
  rendermime: IRenderMimeRegistry;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
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

export function useAssistant(): IAssistantState {
  const { assistant } = useServices();
  return useModel(assistant);
}

export function useConversation(): IConversationState {
  return useModel(useAssistant().conversation);
}

interface IModel<State> {
  readonly changed: ISignal<unknown, void>;
  readonly state: State;
}

/** The state of a model; the component is rendered at most once per animation frame, however often it changes. */
function useModel<State>(model: IModel<State>): State {
  const subscribe = React.useCallback(
    (render: () => void) => {
      let frame = 0;
      const schedule = (): void => {
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          render();
        });
      };
      model.changed.connect(schedule);
      return () => {
        cancelAnimationFrame(frame);
        model.changed.disconnect(schedule);
      };
    },
    [model]
  );
  return React.useSyncExternalStore(subscribe, () => model.state);
}

/** Seconds since the component was first shown; counts only while `running`. */
export function useSeconds(running: boolean): number {
  const [start] = React.useState(() => Date.now());
  const subscribe = React.useCallback(
    (render: () => void) => {
      const timer = running ? setInterval(render, 1000) : 0;
      return () => clearInterval(timer);
    },
    [running]
  );
  const elapsed = React.useRef(0);
  return React.useSyncExternalStore(subscribe, () => {
    if (running) {
      elapsed.current = Math.floor((Date.now() - start) / 1000);
    }
    return elapsed.current;
  });
}
