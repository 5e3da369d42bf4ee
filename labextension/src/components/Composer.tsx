import { stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { IOption } from '../composer/options';
import { readFile } from '../composer/files';
import { MOST_PICTURES, isPicture } from '../composer/pictures';
import { describeRefusal } from '../composer/refusals';
import { legible } from '../wording/oddCharacters';
import { DraftChips } from './Chips';
import { EffortChoice, ModeChoice, ModelChoice } from './Choices';
import { sendIcon } from './icons';
import {
  useAssistant,
  useCompletion,
  useConversation,
  useDraft,
  useIsReason,
  useModels,
  useQueue,
  useServices
} from './services';
import { Instructions } from './Instructions';
import { LIST_ID, Suggestions, optionId } from './Suggestions';

const STOP_KEY = 'Esc';

/** The message field with its attachments and the choices of mode, model and effort. */
export function Composer(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { conversation } = useAssistant();
  const { progress } = useConversation();
  const { refusal, pictures, text } = useDraft();
  useModels();
  const attach = useAttachFiles();
  const running = progress === 'running';
  const isReason = useIsReason() && !pictures.length && text.trim() !== '';
  const empty = !text.trim() && !pictures.length;
  const untaken = pictures.find(file => !assistant.models.takes(file));
  const send = useSend();
  return (
    <div
      className="jp-Agent-composer"
      onDragOver={event => {
        if (event.dataTransfer.types.includes('Files')) {
          event.preventDefault();
        }
      }}
      onDrop={event => {
        if (event.dataTransfer.types.includes('Files')) {
          event.preventDefault(); // dropped text goes into the field
          void attach([...event.dataTransfer.files]);
        }
      }}
    >
      <DraftChips />
      <Instructions />
      <Message send={send} attach={attach} />
      {(refusal || untaken) && (
        <p role="alert" className="jp-Agent-refusal">
          {refusal ||
            (untaken?.mediaType === 'application/pdf'
              ? trans.__("This model can't read PDF files. Choose another, or remove them.")
              : trans.__("This model can't read images. Choose another, or remove them."))}
        </p>
      )}
      {isReason && (
        <p role="note" className="jp-Agent-replyNote">
          {trans.__('Enter denies with this reason.')}{' '}
          <button className="jp-Agent-link" onClick={() => send({ queue: true })}>
            {trans.__('Queue it instead')}
          </button>
        </p>
      )}
      <div className="jp-Agent-choices">
        <ModeChoice />
        <ModelChoice />
        <EffortChoice />
        <span className="jp-Agent-sending">
          {running && (
            <button
              className="jp-Agent-button jp-Agent-stop"
              aria-label={trans.__('Stop')}
              onClick={() => void conversation.stop()}
            >
              <stopIcon.react tag="span" />
              {trans.__('Stop')}
              {!conversation.approvals.length && <kbd aria-hidden="true">{STOP_KEY}</kbd>}
            </button>
          )}
          {(!running || !empty) && (
            <button
              className="jp-Agent-send jp-mod-primary"
              aria-label={trans.__('Send')}
              title={
                isReason
                  ? trans.__('Deny with this reason (Enter)')
                  : running
                    ? trans.__('Queue (Enter)')
                    : trans.__('Send (Enter)')
              }
              disabled={empty || untaken !== undefined}
              onClick={() => send()}
            >
              <sendIcon.react tag="span" />
            </button>
          )}
        </span>
      </div>
    </div>
  );
}

/** Sends the draft; `queue` queues it after the answer, even if it could be the reason for a denial. */
type Send = (how?: { queue: boolean }) => void;

/** Runs the draft's command, denies with the draft as the reason, or sends it. */
function useSend(): Send {
  const { assistant, denial, focusMessage, slash } = useServices();
  return ({ queue } = { queue: false }) => {
    const { draft } = assistant;
    const { pictures, text } = draft.state;
    if (
      (!text.trim() && !pictures.length) ||
      !pictures.every(file => assistant.models.takes(file))
    ) {
      return;
    }
    const asked = slash.expand(text.trim());
    if (typeof asked === 'function') {
      draft.setText(''); // attachments stay for the next question
      asked();
    } else if (denial.state && !queue && !pictures.length) {
      denial.deny(denial.question, asked);
    } else {
      focusMessage();
      assistant.submit(asked);
    }
  };
}

interface IMessageProps {
  send: Send;
  attach: (files: readonly File[]) => Promise<void>;
}

/** The message field, with the list of completions. */
function Message({ send, attach }: IMessageProps): React.JSX.Element {
  const { assistant, completion, copied, trans } = useServices();
  const { draft } = assistant;
  const { text } = useDraft();
  const { active, options, token } = useCompletion();
  const field = React.useRef<HTMLTextAreaElement>(null);
  const hint = useHint();
  const open = options.length > 0;
  const write = (insert: string, from?: number, to?: number): void => {
    const { selectionStart, selectionEnd } = field.current!;
    field.current!.setRangeText(insert, from ?? selectionStart, to ?? selectionEnd, 'end'); // and the cursor after it
    field.current!.dispatchEvent(new Event('input', { bubbles: true }));
  };
  const choose = (option: IOption, entered = false): void => {
    if (!token || !field.current) {
      return;
    }
    const exact = option.insert.trim() === text.trim();
    if (entered && (option.complete || exact)) {
      draft.setText(text.slice(0, token.from) + option.insert);
      completion.close();
      send();
      return;
    }
    if (option.attachment) {
      draft.attach(option.attachment);
    }
    const going = option.insert.startsWith('@') || option.insert.startsWith('/');
    const insert = going || text[token.to] === ' ' ? option.insert : `${option.insert} `;
    completion.close();
    field.current.focus();
    write(insert, token.from, token.to);
  };
  const onKeyDown = (event: React.KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.nativeEvent.isComposing) {
      return;
    }
    if (open && completion.chosen) {
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        completion.move(event.key === 'ArrowDown' ? 1 : -1);
      } else if (event.key === 'Tab' || (event.key === 'Enter' && !event.shiftKey)) {
        choose(completion.chosen, event.key === 'Enter');
      } else if (event.key === 'Escape') {
        completion.dismiss();
      } else {
        return;
      }
      event.preventDefault();
    } else if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      send();
    } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      const { selectionStart } = event.currentTarget;
      const up = event.key === 'ArrowUp';
      const beyond = up ? text.slice(0, selectionStart) : text.slice(selectionStart);
      if (!beyond.includes('\n') && assistant.recall(up ? -1 : 1)) {
        event.preventDefault();
      }
    }
  };
  return (
    <div className="jp-Agent-message">
      <Suggestions onChoose={option => choose(option, option.complete)} />
      <textarea
        ref={field}
        aria-label={trans.__('Message')}
        aria-autocomplete="list"
        aria-controls={open ? LIST_ID : undefined}
        aria-activedescendant={open ? optionId(active) : undefined}
        placeholder={hint}
        rows={2}
        value={text}
        onFocus={() => draft.follow()} // selecting text emits no event
        onBlur={() => completion.close()}
        onKeyDown={onKeyDown}
        onChange={event => {
          draft.setText(event.target.value);
          completion.complete(event.target.value, event.target.selectionStart);
        }}
        onPaste={event => {
          const { files, types } = event.clipboardData;
          const cells = copied.pasted(event.clipboardData.getData('text/plain'));
          if (cells) {
            event.preventDefault();
            draft.attach(...cells.attachments);
            write(cells.text);
          } else if (files.length && !types.includes('text/plain')) {
            event.preventDefault();
            void attach([...files]);
          }
        }}
      />
    </div>
  );
}

function useHint(): string {
  const { notebooks, trans } = useServices();
  const { conversation } = useAssistant();
  const { progress } = useConversation();
  const { place } = useDraft();
  const { waiting } = useQueue();
  const isReason = useIsReason();
  if (progress === 'running') {
    return isReason
      ? trans.__('Tell it what to do instead…')
      : conversation.approvals.length
        ? trans.__('Waiting for your approval')
        : waiting.length
          ? trans.__('Add another follow-up')
          : trans.__('Type to queue a follow-up (Esc to stop)');
  }
  if (!place && notebooks.drive) {
    return trans.__("The assistant can't open notebooks on drive “%1”.", notebooks.drive);
  }
  return place ? trans.__('Ask about this notebook…') : trans.__('Ask, or open a notebook first…');
}

/** Attaches files that models can read, and says why others are refused. */
function useAttachFiles(): (files: readonly File[]) => Promise<void> {
  const { assistant, trans } = useServices();
  const { draft } = assistant;
  return async files => {
    if (files.some(isPicture) && !assistant.models.takesPictures) {
      draft.refuse(trans.__("This model can't read images. Choose another one first."));
      return;
    }
    if (draft.state.pictures.length + files.length > MOST_PICTURES) {
      draft.refuse(trans.__('You can attach at most %1 files.', MOST_PICTURES));
      return;
    }
    const refusals: string[] = [];
    for (const file of files) {
      const read = await readFile(file);
      if (typeof read === 'string') {
        refusals.push(describeRefusal(read, legible(file.name), trans));
      } else {
        draft.addPictures([read]);
      }
    }
    if (refusals.length) {
      draft.refuse(refusals.join(' '));
    }
  };
}
