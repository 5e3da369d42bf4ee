import * as React from 'react';
import type { INotice } from '../api/protocol';
import { retryWords, secondsLeft } from '../wording/retryWords';
import { useAssistant, useSeconds, useServices } from './services';

/** Counts down until a request to the model is retried, and lets the user retry it now. */
export function Retrying({ notice }: { notice: INotice }): React.JSX.Element {
  const { focusMessage, trans } = useServices();
  const { conversation } = useAssistant();
  const left = secondsLeft(notice, useSeconds(true));
  return (
    <div role="group" aria-label={trans.__('Waiting to retry')} className="jp-Agent-retrying">
      <span role="timer" title={notice.said}>
        {retryWords(notice, left, trans)}
      </span>
      {left > 0 && (
        <button
          className="jp-Agent-button"
          onClick={() => {
            focusMessage(); // the button disappears
            void conversation.retryNow();
          }}
        >
          {trans.__('Retry now')}
        </button>
      )}
    </div>
  );
}
