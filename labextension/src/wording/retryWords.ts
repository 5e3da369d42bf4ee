import type { TranslationBundle } from '@jupyterlab/translation';
import type { INotice } from '../api/protocol';

/** The remaining seconds, `elapsed` seconds after the notice was first shown. */
export function secondsLeft({ seconds = 0, until }: INotice, elapsed: number): number {
  const untilThen = until ? (Date.parse(until) - Date.now()) / 1000 : Infinity;
  return Math.max(0, Math.ceil(Math.min(seconds - elapsed, untilThen))); // clocks may differ
}

/** Why a request is retried, and when. */
export function retryWords(
  { reason, until }: INotice,
  left: number,
  trans: TranslationBundle
): string {
  return `${whyWords(reason, trans)} ${whenWords(until, left, trans)}`;
}

/** Why a request was retried, once that is over. */
export function retriedWords({ reason }: INotice, trans: TranslationBundle): string {
  return `${whyWords(reason, trans)} ${trans.__('Retried.')}`;
}

function whyWords(reason: string | undefined, trans: TranslationBundle): string {
  switch (reason) {
    case 'rate_limit':
      return trans.__('Rate limit reached.');
    case 'overloaded':
      return trans.__('The model service is overloaded.');
    case 'network':
    case 'dns':
      return trans.__("Can't reach the model service.");
    default:
      return trans.__('The model service failed.');
  }
}

function whenWords(until: string | undefined, left: number, trans: TranslationBundle): string {
  if (!left) {
    return trans.__('Retrying…');
  }
  const minutes = Math.floor(left / 60);
  const wait = minutes ? trans.__('%1 min %2 s', minutes, left % 60) : trans.__('%1 s', left);
  if (!until) {
    return trans.__('Retrying in %1', wait);
  }
  const time = new Date(until).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  return trans.__('Retrying at %1, in %2', time, wait);
}
