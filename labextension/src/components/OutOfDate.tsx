import * as React from 'react';
import { withPositions } from '../wording/callDescriptions';
import { useConversation, useServices, useStaleCells } from './services';

/** Placeholder in a sentence for the links to cells. */
const PLACES = '\u0000';

/** After a turn: the cells whose outputs no longer follow from the code above, with a button to run them. */
export function OutOfDate(): React.JSX.Element | null {
  const { notebooks, trans } = useServices();
  const { messages, progress } = useConversation();
  const notebook = messages.at(-1)?.metadata?.notebook ?? '';
  const stale = useStaleCells()[notebook] ?? [];
  const shown = stale.flatMap(({ cell_id, why }) => {
    const position = notebooks.position({ notebook, cell_id });
    return position === null ? [] : [{ cell_id, why, position }];
  });
  if (!shown.length || progress === 'running') {
    return null;
  }
  const locate = (cell_id: string): number | null => notebooks.position({ notebook, cell_id });
  const sentence = trans._n('Cell %2 may be stale', 'Cells %2 may be stale', shown.length, PLACES);
  const [before, after] = sentence.split(PLACES);
  const run = (): void => {
    void notebooks.run(
      notebook,
      shown.map(({ cell_id }) => cell_id)
    );
  };
  return (
    <div role="group" aria-label={trans.__('Stale cells')} className="jp-Agent-turnLine">
      <span>
        {before}
        {shown.map(({ cell_id, why, position }, index) => (
          <React.Fragment key={cell_id}>
            {index > 0 && (index < shown.length - 1 ? ', ' : ` ${trans.__('and')} `)}
            <button
              className="jp-Agent-link"
              aria-label={trans.__('Cell %1', position)}
              title={withPositions(why, locate, trans)}
              onClick={() => void notebooks.reveal({ notebook, cell_id })}
            >
              {position}
            </button>
          </React.Fragment>
        ))}
        {after}
      </span>
      <button className="jp-Agent-button" onClick={run}>
        {trans.__('Run')}
      </button>
    </div>
  );
}
