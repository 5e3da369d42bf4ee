import type { TranslationBundle } from '@jupyterlab/translation';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Conversation } from '../chat/conversation';
import { retryOf } from '../chat/message';
import { activityOf } from '../wording/activity';
import { failureWords, refusalWords } from '../wording/failureWords';
import { retryWords, secondsLeft } from '../wording/retryWords';
import type { FindTool } from '../wording/toolPhrases';
import type { AskedState } from './askedState';
import { answerTo, oneLine } from './askedState';

/** The status that the line at a cell shows for its question. */
export interface IStatus {
  words: string;
  /** Identifies the activity; the seconds are counted from its start. */
  key: string;
  /** The label of the button that opens the panel; empty if there isn't any. */
  show: string;
  /** Whether work is in progress, so that seconds are shown. */
  live: boolean;
  /** Whether the question has been accepted, so its text need not be kept. */
  accepted: boolean;
  /** Whether the text can be sent again. */
  reusable: boolean;
  /** Whether the field shows the sent question, which cannot be changed now. */
  locked: boolean;
  /** Whether the line can be closed. */
  over: boolean;
}

interface IStatusContext {
  id: string;
  state: AskedState;
  conversation: Conversation;
  /** The model that answers, as `provider:model`. */
  model: string;
  notebooks: Pick<OpenNotebooks, 'kernel' | 'position'>;
  tools: FindTool;
  /** Seconds since the text was first shown. */
  elapsed: number;
}

const NOTHING: IStatus = {
  words: '',
  key: '',
  show: '',
  live: false,
  accepted: false,
  reusable: false,
  locked: false,
  over: false
};

/** The status of a question asked at a cell. */
export function statusOf(context: IStatusContext, trans: TranslationBundle): IStatus {
  const { conversation, id, state } = context;
  const { failure, messages } = conversation.state;
  const answer = answerTo(id, messages);
  const show = trans.__('Show answer');
  switch (state) {
    case 'queued':
    case 'held':
      return {
        ...NOTHING,
        words:
          state === 'held'
            ? trans.__('Paused because the answer was stopped.')
            : trans.__('Queued: sent when the answer before it is finished.'),
        show: trans.__('Show queue'),
        accepted: true,
        locked: true
      };
    case 'working':
      return { ...NOTHING, ...work(context, trans), live: true, accepted: true, locked: true };
    case 'refused':
      return {
        ...NOTHING,
        words:
          (failure && refusalWords(failure, trans)) ||
          trans.__("Can't reach the Jupyter server. Try again."),
        show: trans.__('Show in panel'),
        reusable: true
      };
    case 'failed': {
      const notice = answer?.parts.findLast(({ type }) => type === 'data-notice');
      const words =
        notice?.type === 'data-notice' && notice.data.error
          ? failureWords(notice.data, answer?.metadata?.model, trans)
          : failure
            ? refusalWords(failure, trans)
            : '';
      return { ...NOTHING, words: words || trans.__('The answer failed.'), show, reusable: true };
    }
    case 'stopped':
      return { ...NOTHING, words: trans.__('Stopped.'), show, reusable: true };
    case 'answered':
      return {
        ...NOTHING,
        words: oneLine(answer) || trans.__('No changes.'),
        show,
        accepted: true
      };
    case 'changed':
    case 'gone':
      return { ...NOTHING, accepted: state === 'changed', over: true };
  }
}

function work(
  { conversation, elapsed, model, notebooks, tools }: IStatusContext,
  trans: TranslationBundle
): Pick<IStatus, 'key' | 'show' | 'words'> {
  const last = conversation.state.messages.at(-1);
  const retry = last ? retryOf(last) : null;
  if (retry) {
    const left = secondsLeft(retry, elapsed);
    return { key: 'retry', words: retryWords(retry, left, trans), show: trans.__('Show in panel') };
  }
  const isHeld = conversation.approvals.length > 0;
  const { key, text } = activityOf(last, { isHeld, model, notebooks, tools }, trans);
  return { key, words: text, show: isHeld ? trans.__('Show request') : '' };
}
