import * as React from 'react';
import { withPositions } from '../wording/callDescriptions';
import { useConversation, useServices, useStaleCells } from './services';

/** After a turn: the cells whose outputs no longer follow from the code above, with a way to run them. */
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
  const run = (): void => {
    void notebooks.run(
      notebook,
      shown.map(({ cell_id }) => cell_id)
    );
  };
  return (
    <div role="group" aria-label={trans.__('Out of date')} className="jp-Agent-turnLine">
      <span>
        {trans._n('1 cell is out of date:', '%1 cells are out of date:', shown.length)}{' '}
        {shown.map(({ cell_id, why, position }, index) => (
          <React.Fragment key={cell_id}>
            {index > 0 && ', '}
            <button
              className="jp-Agent-link"
              title={withPositions(why, locate, trans)}
              onClick={() => void notebooks.reveal({ notebook, cell_id })}
            >
              {trans.__('cell %1', position)}
            </button>
          </React.Fragment>
        ))}
      </span>
      <button className="jp-Agent-button" onClick={run}>
        {trans._n('Run it', 'Run them', shown.length)}
      </button>
    </div>
  );
}
