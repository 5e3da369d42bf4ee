import * as React from 'react';

export interface IMenuItem {
  label: string;
  /** Description of the entry. */
  about?: string;
  run: () => void;
}

interface IMenuButtonProps {
  /** The name of the button and the menu. */
  label: string;
  className: string;
  /** The side of the button with which the menu is aligned. */
  side: 'start' | 'end';
  items: readonly IMenuItem[];
  disabled?: boolean;
  children: React.ReactNode;
}

/** A button with a menu that opens upwards; arrow keys move in it, Escape closes it. */
export function MenuButton(props: IMenuButtonProps): React.JSX.Element {
  const { label, className, side, items, disabled, children } = props;
  const [open, setOpen] = React.useState(false);
  const button = React.useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <span
      className="jp-Agent-menuPlace"
      onBlur={event => {
        if (!event.currentTarget.contains(event.relatedTarget)) {
          setOpen(false);
        }
      }}
      onKeyDown={event => {
        if (open && event.key === 'Escape') {
          event.preventDefault(); // closes the menu, and nothing else
          close();
        } else if (open && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
          event.preventDefault();
          move(event.currentTarget, event.key === 'ArrowDown' ? 1 : -1);
        }
      }}
    >
      <button
        ref={button}
        className={className}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        title={label}
        disabled={disabled}
        onClick={() => setOpen(!open)}
      >
        {children}
      </button>
      {open && (
        <div
          role="menu"
          aria-label={label}
          className="jp-Agent-menu"
          data-side={side}
          ref={focusFirst}
        >
          {items.map(item => (
            <button
              key={item.label}
              role="menuitem"
              aria-label={item.about ? `${item.label}. ${item.about}` : item.label}
              onKeyDown={event => event.repeat && event.preventDefault()}
              onClick={() => {
                close();
                item.run();
              }}
            >
              <span>{item.label}</span>
              {item.about && <span className="jp-Agent-note">{item.about}</span>}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}

function focusFirst(menu: HTMLElement | null): void {
  menu?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
}

function move(place: HTMLElement, step: number): void {
  const items = [...place.querySelectorAll<HTMLElement>('[role=menuitem]')];
  const index = items.indexOf(document.activeElement as HTMLElement);
  items.at((index + step + items.length) % items.length)?.focus();
}
