import * as React from 'react';
import type { IOption } from '../composer/options';
import { legible } from '../wording/oddCharacters';
import { useCompletion, useServices } from './services';

export const LIST_ID = 'jp-Agent-suggestions';

/** The id of an option, by which the message field refers to it. */
export function optionId(index: number): string {
  return `${LIST_ID}-${index}`;
}

/** Completions for the word being typed; the focus stays in the message field. */
export function Suggestions(props: { onChoose: (option: IOption) => void }): React.JSX.Element {
  const { completion, trans } = useServices();
  const { active, options } = useCompletion();
  const heads = options.map(({ group }, index) => group !== options[index - 1]?.group);
  return (
    <>
      <div role="status" className="jp-Agent-hidden">
        {options.length > 0 && trans._n('1 suggestion', '%1 suggestions', options.length)}
      </div>
      {options.length > 0 && (
        <div
          role="listbox"
          id={LIST_ID}
          aria-label={trans.__('Suggestions')}
          className="jp-Agent-suggestions"
          onMouseDown={event => event.preventDefault()} // keeps the cursor in place
        >
          {options.map((option, index) => (
            <React.Fragment key={index}>
              {heads[index] && (
                <div role="presentation" className="jp-Agent-suggestionHead">
                  {option.group}
                </div>
              )}
              <div
                role="option"
                id={optionId(index)}
                aria-selected={index === active}
                className="jp-Agent-suggestion"
                ref={index === active ? scrollIntoView : undefined}
                onMouseMove={() => completion.activate(index)}
                onClick={() => props.onChoose(option)}
              >
                <span>{legible(option.label)}</span>
                <span className="jp-Agent-note">{legible(option.about)}</span>
              </div>
            </React.Fragment>
          ))}
        </div>
      )}
    </>
  );
}

function scrollIntoView(node: HTMLElement | null): void {
  node?.scrollIntoView({ block: 'nearest' });
}
