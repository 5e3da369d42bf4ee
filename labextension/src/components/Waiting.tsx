import { closeIcon, editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { IQueued } from '../chat/queue';
import { IconButton } from './Header';
import { useConversation, useQueue, useServices } from './services';

/** The queue of questions to send when the turn has ended. */
export function Waiting(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { held, waiting } = useQueue();
  const { progress } = useConversation();
  if (!waiting.length) {
    return null;
  }
  return (
    <section className="jp-Agent-waiting" aria-label={trans.__('Queued')}>
      <p className="jp-Agent-notice">
        {held && progress !== 'running'
          ? progress === 'stopped'
            ? trans.__('Paused because the answer was stopped.')
            : progress === 'idle'
              ? trans.__('Paused because the conversation could not be read.')
              : trans.__('Paused because the answer failed.')
          : trans.__('Queued')}
      </p>
      <ul>
        {waiting.map(queued => (
          <Entry key={queued.id} queued={queued} />
        ))}
      </ul>
      {held && progress !== 'running' && (
        <button className="jp-Agent-button" onClick={() => assistant.queue.next()}>
          {trans.__('Send now')}
        </button>
      )}
    </section>
  );
}

function Entry({ queued }: { queued: IQueued }): React.JSX.Element {
  const { assistant, focusMessage, trans } = useServices();
  const { text } = queued;
  return (
    <li>
      <span title={text}>{text || trans.__('A picture')}</span>
      <IconButton
        icon={editIcon}
        label={trans.__('Edit “%1”', text)}
        onClick={() => {
          assistant.editQueued(queued);
          focusMessage();
        }}
      />
      <IconButton
        icon={closeIcon}
        label={trans.__('Remove “%1”', text)}
        onClick={() => {
          assistant.queue.remove(queued.id);
          focusMessage();
        }}
      />
    </li>
  );
}
