import type { TranslationBundle } from '@jupyterlab/translation';
import type { IFailure } from '../api/failure';
import type { INotice } from '../api/protocol';
import { modelName, titleCase } from './callDescriptions';

/** Why a turn failed, as a sentence; the server's text for unknown reasons. `model` is the turn's. */
export function failureWords(
  { reason, error = '', until }: INotice,
  model: string | undefined,
  trans: TranslationBundle
): string {
  const service = titleCase(model?.split(':', 1)[0] ?? '') || trans.__('the model service');
  const name = modelName(model ?? '') || trans.__('This model');
  switch (reason) {
    case 'authentication':
      return trans.__('%1 rejected the API key.', service);
    case 'billing':
      return trans.__('Your %1 credit is used up.', service);
    case 'rate_limit':
      return trans.__('Rate limit reached.') + againAfter(until, error, trans);
    case 'overloaded':
      return trans.__('%1 is overloaded.', service) + againAfter(until, error, trans);
    case 'network':
    case 'dns':
      return trans.__("Can't reach %1. Check your network or proxy.", service);
    case 'proxy':
      return trans.__("Your proxy doesn't let the server reach %1.", service);
    case 'tls':
      return trans.__("Can't connect to %1 securely: its certificate isn't trusted.", service);
    case 'permission':
      return trans.__('Your API key may not use %1.', name);
    case 'not_found':
      return trans.__('%1 has no model “%2”. Choose another one.', service, name);
    case 'context_length':
      return trans.__(
        'The conversation is too long for %1. Summarise it or start a new one.',
        name
      );
    case 'invalid_request':
      return trans.__('%1 refused the request.', service);
    case 'service':
    case 'broken_stream':
      return trans.__('%1 had a server error.', service);
    case 'interrupted':
      return trans.__('The Jupyter server stopped during this answer. Nothing was lost.');
    default:
      return splitRequest(error)[0];
  }
}

/** Why a request of the panel was refused; the server's text for unknown reasons, empty if it did not answer. */
export function refusalWords({ message, reason }: IFailure, trans: TranslationBundle): string {
  switch (reason) {
    case 'turn_running':
      return trans.__('This conversation is busy with another answer.');
    case 'not_continuable':
      return trans.__("That answer can't be continued: another message followed it.");
    case 'monthly_budget':
      return trans.__('Your budget for this month is used up.');
    case 'signed_out':
      return trans.__(
        'The Jupyter server refused this (%1). If your session has ended, log in again in another tab, then try again here.',
        message
      );
    default:
      return message;
  }
}

/** The message of a model service, and the id of the request, which only its support needs. */
export function splitRequest(message: string): [text: string, request: string | undefined] {
  const [, text, request] = /^(.*?)\s*\(request ([\w-]+)\)$/s.exec(message) ?? [];
  return request ? [text, request] : [message, undefined];
}

function againAfter(until: string | undefined, error: string, trans: TranslationBundle): string {
  if (!until) {
    return / Ask again after .*?\./.exec(error)?.[0] ?? ''; // from a server version without `until`
  }
  const time = new Date(until).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  return ` ${trans.__('Try again after %1.', time)}`;
}
