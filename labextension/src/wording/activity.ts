import type { TranslationBundle } from '@jupyterlab/translation';
import type { AgentMessage, AgentPart, CallPart } from '../api/protocol';
import { runsOf } from '../api/toolRuns';
import type { OpenNotebooks } from '../bridge/openNotebooks';
import type { Locate } from './cellNames';
import { currentCall, describeCall, modelName, notebookOf } from './callDescriptions';
import type { FindTool, Input } from './toolPhrases';
import { runsCode } from './toolPhrases';

/** The current activity of a turn: the key changes when another one starts. */
export interface IActivity {
  key: string;
  text: string;
}

interface IKernel {
  /** Whether it is starting or restarting. */
  starting: boolean;
  /** The position of a cell that someone else is running, if any. */
  busy: number | null;
}

/** Facts about a turn besides its messages. */
interface IActivityContext {
  /** Whether it waits for an approval. */
  isHeld: boolean;
  /** The model that answers, as `provider:model`, if the message does not name it. */
  model: string;
  notebooks: Pick<OpenNotebooks, 'kernel' | 'position'>;
  tools: FindTool;
}

/** What a running turn is doing or waiting for, derived from its last message. */
export function activityOf(
  last: AgentMessage | undefined,
  { isHeld, model, notebooks, tools }: IActivityContext,
  trans: TranslationBundle
): IActivity {
  const parts = last?.role === 'assistant' ? last.parts : [];
  const open = parts.findLast(isOpen);
  if (isHeld) {
    return { key: 'approval', text: trans.__('Waiting for your approval') };
  }
  if (open) {
    return open.type === 'reasoning'
      ? { key: 'thinking', text: trans.__('Thinking') }
      : { key: 'text', text: trans.__('Writing') };
  }
  const call = currentCall(parts);
  if (call) {
    const notebook = notebookOf(call, [], last?.metadata?.notebook ?? null);
    const locate = (cell_id: string): number | null =>
      notebook ? notebooks.position({ notebook, cell_id }) : null;
    return activityOfCall(call, locate, notebooks.kernel(notebook), tools, trans);
  }
  const answers = answering(parts) ?? last?.metadata?.model ?? model;
  const name = answers ? modelName(answers) : trans.__('the model');
  return { key: `model ${parts.length}`, text: trans.__('Waiting for %1', name) };
}

/** The model that took over, if any. */
function answering(parts: readonly AgentPart[]): string | undefined {
  const notice = parts.findLast(
    part => part.type === 'data-notice' && part.data.kind === 'fallback'
  );
  return notice?.type === 'data-notice' ? notice.data.model : undefined;
}

function isOpen(part: AgentPart): part is Extract<AgentPart, { type: 'text' | 'reasoning' }> {
  return (part.type === 'text' || part.type === 'reasoning') && part.state === 'streaming';
}

/** "Running cell 5", "Starting the kernel", "Cell 7 is running your code. Queued behind it" */
export function activityOfCall(
  call: CallPart,
  locate: Locate,
  kernel: IKernel,
  tools: FindTool,
  trans: TranslationBundle
): IActivity {
  const runs = runsOf(call.output);
  const running = runs.find(({ status }) => status === 'running');
  const waits = !running && runs.some(({ status }) => status === 'queued');
  const key = `${call.toolCallId} ${running?.run_id ?? ''}`;
  if (kernel.starting && runsCode(call.toolName, (call.input ?? {}) as Input, tools)) {
    return { key: `${key} kernel`, text: trans.__('Starting the kernel') };
  }
  if (waits && kernel.busy) {
    const text = trans.__('Cell %1 is running your code. Queued behind it', kernel.busy);
    return { key: `${key} queue`, text };
  }
  const place = running?.cell_id ? locate(running.cell_id) : null;
  if (place) {
    return { key, text: trans.__('Running cell %1', place) };
  }
  const { text } = describeCall(call, [], locate, tools, trans);
  return { key, text: text.replace(/…$/, '') };
}
