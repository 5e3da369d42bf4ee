import { ServerConnection } from '@jupyterlab/services';

/** The server refused a request; `message` is a sentence for the user. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string
  ) {
    super(message);
    this.name = 'RequestError';
  }
}

/** Why a request failed; for `network` there is no message from the server. */
export interface IFailure {
  readonly message: string;
  readonly reason: string;
}

/** The failure to show for an error of a request. Any other error is a bug and is thrown again. */
export function failureOf(error: unknown): IFailure {
  if (error instanceof RequestError) {
    return { message: error.message, reason: error.reason };
  }
  if (error instanceof ServerConnection.NetworkError) {
    return { message: '', reason: 'network' };
  }
  throw error;
}

/**
 * The error in a response that is not a success.
 *
 * Our server gives a reason for what it refuses. Jupyter does not: a 401 or 403 of its own, usually after the session
 * has ended, is `signed_out`.
 */
export async function refusal(response: Response): Promise<RequestError> {
  const { status, statusText } = response;
  const fallback = `${status} ${statusText}`;
  const unknown = status === 401 || status === 403 ? 'signed_out' : '';
  try {
    const { message, reason } = (await response.json()) as { message?: string; reason?: string };
    return new RequestError(status, reason ?? unknown, message || fallback);
  } catch {
    return new RequestError(status, unknown, fallback); // a proxy's page, not our server's answer
  }
}
