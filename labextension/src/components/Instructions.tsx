import * as React from 'react';
import type { IProjectInstructions } from '../api/protocol';
import { pieces } from '../wording/oddCharacters';
import { Code } from './Code';
import { DecideButton, ReadBox, useReading } from './ReadFirst';
import { useAssistant, useInstructions, useServices } from './services';

/** The instructions that every answer follows. */
export function Instructions(): React.JSX.Element | null {
  const { openFile, openSettings, trans } = useServices();
  const { followed } = useInstructions();
  if (!followed.length) {
    return null;
  }
  return (
    <p className="jp-Agent-instructions">
      {trans.__('Follows')}
      {followed.map(({ source, characters, cut }) => {
        const own = source === 'settings';
        const name = own ? trans.__('your instructions') : source;
        const about = cut
          ? trans.__('Its first %1 characters are sent with every message', characters)
          : trans.__('Sent with every message');
        return (
          <button
            key={source}
            className="jp-Agent-link"
            title={about}
            onClick={() => (own ? openSettings() : openFile(source))}
          >
            {cut ? trans.__('%1 (cut)', name) : name}
          </button>
        );
      })}
    </p>
  );
}

/** Asks whether to follow the instructions of a folder, one file after the other, with their whole text. */
export function TrustInstructions(): React.JSX.Element | null {
  const { conversation, view } = useAssistant();
  const { undecided } = useInstructions();
  const [first] = undecided;
  if (!first || view !== 'conversation' || conversation.approvals.length) {
    return null;
  }
  return <Card key={first.source + first.digest} instructions={first} />;
}

function Card({ instructions }: { instructions: IProjectInstructions }): React.JSX.Element {
  const { assistant, focusMessage, trans } = useServices();
  const { source, text, trust, cut } = instructions;
  const { read, reading } = useReading();
  const tricks = React.useMemo(() => pieces(text).some(({ trick }) => trick), [text]);
  const words =
    trust === 'changed'
      ? trans.__('%1 has changed. Follow it?', source)
      : trans.__('Follow %1?', source);
  const decide = (trusted: boolean): void => {
    focusMessage();
    void assistant.instructions.decide(instructions, trusted);
  };
  return (
    <div role="group" aria-label={words} className="jp-Agent-approval">
      <div className="jp-Agent-callHead">
        <strong>{words}</strong>
      </div>
      <p className="jp-Agent-act">
        {trans.__(
          'This folder contains instructions for the assistant. They are sent with every message here, so follow only those you trust.'
        )}{' '}
        {cut && trans.__('Only this beginning of the file is sent.')}{' '}
        {tricks && trans.__('It contains hidden or misleading characters.')}
      </p>
      <ReadBox reading={reading} label={trans.__('What it says')}>
        <Code text={text} mimeType="text/plain" folded />
      </ReadBox>
      <div className="jp-Agent-buttons">
        <DecideButton
          read={read}
          reading={reading}
          label={trans.__('Follow')}
          onDecide={() => decide(true)}
        />
        <button className="jp-Agent-button" onClick={() => decide(false)}>
          {trans.__('Ignore')}
        </button>
      </div>
    </div>
  );
}
