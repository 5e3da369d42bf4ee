import * as React from 'react';
import { ReadToEnd } from './readToEnd';
import { useServices } from './services';

/** What somebody has to read before they decide on it. */
interface IReading {
  /** Whether all of it was in view. */
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
  onDecide: () => void;
}

/** Says yes; until all was in view it shows more. A key held down or a second click decides nothing. */
export function DecideButton(props: IDecideButtonProps): React.JSX.Element {
  const { read, reading, label, onDecide } = props;
  const { trans } = useServices();
  return (
    <button
      className="jp-Agent-button jp-mod-primary"
      onKeyDown={event => event.repeat && event.preventDefault()}
      onClick={read ? event => event.detail < 2 && onDecide() : reading.showMore}
    >
      {read ? label : trans.__('Show the rest')}
    </button>
  );
}
