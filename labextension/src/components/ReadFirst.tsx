import * as React from 'react';
import { ReadToEnd } from './readToEnd';
import { useServices } from './services';

/** Progress in reading content that has to be read before a decision. */
interface IReading {
  /** Whether all of it has been in view. */
  read: boolean;
  reading: ReadToEnd;
}

export function useReading(): IReading {
  const [read, setRead] = React.useState(false);
  const [reading] = React.useState(() => new ReadToEnd(setRead));
  React.useLayoutEffect(reading.look);
  return { read, reading };
}

interface IReadBoxProps {
  reading: ReadToEnd;
  label: string;
  children: React.ReactNode;
}

/** The box that has to be read. */
export function ReadBox({ reading, label, children }: IReadBoxProps): React.JSX.Element {
  return (
    <div
      role="group"
      className="jp-Agent-approvalBody"
      tabIndex={0}
      aria-label={label}
      ref={reading.attach}
      onScroll={reading.look}
    >
      {children}
    </div>
  );
}

interface IDecideButtonProps extends IReading {
  label: string;
  /** The keyboard shortcut. */
  keys?: string;
  onDecide: () => void;
}

/** The confirm button; until everything has been in view it scrolls on. Held keys and second clicks have no effect. */
export function DecideButton(props: IDecideButtonProps): React.JSX.Element {
  const { read, reading, label, keys, onDecide } = props;
  const { trans } = useServices();
  return (
    <button
      className="jp-Agent-button jp-mod-primary"
      onKeyDown={event => event.repeat && event.preventDefault()}
      onClick={read ? event => event.detail < 2 && onDecide() : reading.showMore}
    >
      {read ? label : trans.__('Show the rest')}
      {keys && <kbd aria-hidden="true">{keys}</kbd>}
    </button>
  );
}

/** How long a question has to be shown before keys can decide it: a second press was meant for the previous one. */
const SETTLED_MS = 400;

/** Binds Ctrl or Cmd with Enter, anywhere in the panel, to the button's action. Returns the keys' label. */
export function useChord(
  card: React.RefObject<HTMLElement | null>,
  { read, reading }: IReading,
  onDecide: () => void
): string {
  const mac = isMac();
  const press = React.useRef(onDecide);
  React.useLayoutEffect(() => {
    press.current = read ? onDecide : reading.showMore;
  });
  React.useEffect(() => {
    const panel = card.current?.closest('.jp-Agent-panel');
    const shownAt = performance.now();
    const onKeyDown = (event: Event): void => {
      const { key, ctrlKey, metaKey, shiftKey, altKey, repeat } = event as KeyboardEvent;
      if (key !== 'Enter' || !(mac ? metaKey : ctrlKey) || shiftKey || altKey) {
        return;
      }
      event.preventDefault();
      event.stopPropagation(); // or the message field would send
      if (!repeat && performance.now() - shownAt > SETTLED_MS) {
        press.current();
      }
    };
    panel?.addEventListener('keydown', onKeyDown, true);
    return () => panel?.removeEventListener('keydown', onKeyDown, true);
  }, [card, mac]);
  return mac ? '⌘ Enter' : 'Ctrl Enter';
}

/** Whether shortcuts use the key ⌘. */
export function isMac(): boolean {
  return /Mac|iP(hone|ad|od)/.test(navigator.platform);
}
