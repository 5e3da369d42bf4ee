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

/** The error in a response that is not a success. */
export async function refusal(response: Response): Promise<RequestError> {
  const fallback = `${response.status} ${response.statusText}`;
  try {
    const { message, reason } = (await response.json()) as { message?: string; reason?: string };
    return new RequestError(response.status, reason ?? '', message || fallback);
  } catch {
    return new RequestError(response.status, '', fallback); // a proxy's page, not our server's answer
  }
}
