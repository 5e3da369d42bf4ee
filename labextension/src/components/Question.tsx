import { editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { AgentMessage, IEndedRun } from '../api/protocol';
import type { IQuestionEdit } from '../composer/questionEdits';
import { endOfRun } from '../wording/callDescriptions';
import { Chips, Picture, isFile } from './Chips';
import { IconButton } from './Header';
import { useAssistant, useConversation, useQuestionEdit, useServices } from './services';

/** The user's question, with buttons to resend or edit it. */
export const Question = React.memo(function Question({ message }: { message: AgentMessage }) {
  const { edits, trans } = useServices();
  const edit = useQuestionEdit(message.id);
  const [clicked, setClicked] = React.useState(false);
  const { parts, metadata } = message;
  if (metadata?.ended) {
    return <EndOfRun message={message} ended={metadata.ended} />;
  }
  const text = parts.flatMap(part => (part.type === 'text' ? [part.text] : [])).join('\n\n');
  return (
    <article
      className="jp-Agent-question"
      aria-label={trans.__('Your question')}
      data-message={message.id}
      data-editing={edit !== undefined}
    >
      <Chips attachments={metadata?.context ?? []} />
      {parts.filter(isFile).map((picture, index) => (
        <Picture key={index} picture={picture} index={index} />
      ))}
      {edit ? (
        <Edit message={message} edit={edit} focus={clicked} />
      ) : (
        <>
          <p>{text}</p>
          <span className="jp-Agent-questionTools">
            <IconButton
              icon={editIcon}
              label={trans.__('Edit and resend')}
              onClick={() => {
                setClicked(true);
                edits.write(message.id, { text, undo: true });
              }}
            />
          </span>
        </>
      )}
    </article>
  );
});

/** The end of a run, which started the turn as the user had requested. */
function EndOfRun(props: { message: AgentMessage; ended: IEndedRun }): React.JSX.Element {
  const { notebooks, trans } = useServices();
  const { ended, message } = props;
  const locate = (cell_id: string): number | null =>
    notebooks.position({ notebook: ended.notebook, cell_id });
  return (
    <p className="jp-Agent-notice" data-message={message.id}>
      {endOfRun(ended, locate, trans)}
    </p>
  );
}

interface IEditProps {
  message: AgentMessage;
  edit: IQuestionEdit;
  /** Whether to move the focus to the field: it is shown because of a click. */
  focus: boolean;
}

function moveCursorToEnd(field: HTMLTextAreaElement | null): void {
  field?.setSelectionRange(field.value.length, field.value.length);
}

/** The question in a field; everything after it is replaced by the answer to the new one. */
function Edit({ message, edit, focus }: IEditProps): React.JSX.Element {
  const { assistant, edits, trans } = useServices();
  const { conversation } = useAssistant();
  const { changes, messages } = useConversation();
  const { text, undo } = edit;
  const onEnd = (): void => edits.end(message.id);
  const after = messages.slice(messages.findIndex(({ id }) => id === message.id) + 1);
  const changed = after.some(({ metadata, parts }) => {
    const known = changes[metadata?.turnId ?? ''];
    return known ? known.some(({ undone }) => !undone) : parts.some(isChange);
  });
  const ask = (): void => {
    if (!text.trim() || conversation.busy) {
      return;
    }
    onEnd();
    const { notebook, context } = message.metadata ?? {};
    void assistant.ask(text.trim(), {
      notebook: notebook ?? undefined,
      context,
      pictures: message.parts.filter(isFile),
      replaces: { id: message.id, undo: undo && changed }
    });
  };
  return (
    <>
      <textarea
        aria-label={trans.__('Your question')}
        autoFocus={focus}
        ref={moveCursorToEnd}
        value={text}
        onChange={event => edits.write(message.id, { text: event.target.value, undo })}
        onKeyDown={event => {
          if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            ask();
          } else if (event.key === 'Escape') {
            event.preventDefault(); // cancels the editing, not the turn
            onEnd();
          }
        }}
      />
      {changed && (
        <label className="jp-Agent-notice">
          <input
            type="checkbox"
            checked={undo}
            onChange={() => edits.write(message.id, { text, undo: !undo })}
          />
          {trans.__('Also undo the changes made since')}
        </label>
      )}
      <div className="jp-Agent-buttons">
        <button
          className="jp-Agent-button jp-mod-primary"
          disabled={!text.trim() || conversation.busy}
          onClick={ask}
        >
          {trans.__('Send')}
        </button>
        <button className="jp-Agent-button" onClick={onEnd}>
          {trans.__('Cancel')}
        </button>
        {after.length > 1 && (
          <span className="jp-Agent-note">
            {trans._n(
              'The message below will be replaced',
              'The %1 messages below will be replaced',
              after.length
            )}
          </span>
        )}
      </div>
    </>
  );
}

function isChange({ type }: AgentMessage['parts'][number]): boolean {
  return type === 'data-changes';
}
