import { InputDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownEmptyIcon, stopIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { Mode } from '../protocol';
import { Chips } from './Log';
import { modelName, titleCase } from '../words';
import { sendIcon } from '../icons';
import { useAssistant, useConversation, useServices } from './services';

/** Where the user writes, with what goes along and who answers how. */
export function Composer(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { conversation, draft, place } = useAssistant();
  const { progress, messages } = useConversation();
  const running = progress === 'running';
  const send = (): void => {
    if (draft.trim() && !conversation.busy) {
      void assistant.ask(draft.trim());
      assistant.setDraft('');
    }
  };
  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === 'ArrowUp' && !draft) {
      const asked = messages.findLast(({ role }) => role === 'user')?.parts[0];
      assistant.setDraft(asked?.type === 'text' ? asked.text : '');
    }
  };
  let hint = place
    ? trans.__('Ask about this notebook…')
    : trans.__('Ask, or open a notebook first…');
  if (running) {
    hint = conversation.approvals.length
      ? trans.__('Waiting for your answer above.')
      : trans.__('At work; Esc stops it. What you write here can be sent afterwards.');
  }
  return (
    <div className="jp-Agent-composer" onKeyDown={onKeyDown}>
      {place && (
        <div className="jp-Agent-chips">
          <span className="jp-Agent-chip" title={place.notebook}>
            <span>{PathExt.basename(place.notebook)}</span>
            <button
              aria-label={trans.__('Remove %1', PathExt.basename(place.notebook))}
              onClick={() => assistant.detach()}
            >
              ×
            </button>
          </span>
          <Chips attachments={place.attachments} onRemove={index => assistant.detach(index)} />
        </div>
      )}
      <Instructions />
      <textarea
        aria-label={trans.__('Message')}
        placeholder={hint}
        rows={2}
        value={draft}
        onFocus={() => assistant.follow()} // text that is selected tells nobody
        onChange={event => assistant.setDraft(event.target.value)}
      />
      <div className="jp-Agent-choices">
        <ModeChoice />
        <ModelChoice />
        {running ? (
          <button
            className="jp-Agent-send"
            aria-label={trans.__('Stop')}
            title={trans.__('Stop (Esc)')}
            onClick={() => void conversation.stop()}
          >
            <stopIcon.react tag="span" />
          </button>
        ) : (
          <button
            className="jp-Agent-send jp-mod-primary"
            aria-label={trans.__('Send')}
            title={trans.__('Send (Enter)')}
            disabled={!draft.trim()}
            onClick={send}
          >
            <sendIcon.react tag="span" />
          </button>
        )}
      </div>
    </div>
  );
}

/** What every answer follows, besides what is asked. */
function Instructions(): React.JSX.Element | null {
  const { openFile, openSettings, trans } = useServices();
  const { instructions } = useAssistant();
  if (!instructions.length) {
    return null;
  }
  return (
    <p className="jp-Agent-instructions">
      {trans.__('Follows')}
      {instructions.map(({ source, characters, cut }) => {
        const own = source === 'settings';
        const name = own ? trans.__('your instructions') : source;
        const about = cut
          ? trans.__('Its first %1 characters go with every question', characters)
          : trans.__('Goes with every question');
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

function ModeChoice(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { mode } = useAssistant();
  const modes: Record<Mode, [string, string]> = {
    read: [trans.__('Read only'), trans.__('looks, changes nothing')],
    ask: [trans.__('Ask'), trans.__('asks before each change or run')],
    edit: [trans.__('Edit'), trans.__('edits freely, asks before running')],
    auto: [trans.__('Auto'), trans.__('edits and runs freely')]
  };
  return (
    <Choice
      label={trans.__('Mode')}
      shown={modes[mode][0]}
      value={mode}
      onChange={value => assistant.setMode(value as Mode)}
    >
      {Object.entries(modes).map(([value, [name, meaning]]) => (
        <option key={value} value={value}>
          {name}: {meaning}
        </option>
      ))}
    </Choice>
  );
}

function ModelChoice(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { models } = useAssistant();
  const chosen = assistant.answering;
  if (!models) {
    return null;
  }
  const offered = models.providers.filter(({ models: names }) => names.length);
  const listed = offered.some(({ name, models: names }) =>
    names.some(other => chosen === `${name}:${other}`)
  );
  const choose = async (value: string): Promise<void> => {
    const model = value || (await askForModel(trans, chosen));
    if (model) {
      assistant.setModel(model);
    }
  };
  return (
    <Choice
      label={trans.__('Model')}
      shown={modelName(chosen)}
      value={chosen}
      onChange={value => void choose(value)}
    >
      {!listed && <option value={chosen}>{modelName(chosen)}</option>}
      {offered.map(({ name, models: names, credentials }) => (
        <optgroup
          key={name}
          label={credentials ? titleCase(name) : trans.__('%1 (no key yet)', titleCase(name))}
        >
          {names.map(other => (
            <option key={other} value={`${name}:${other}`}>
              {modelName(other)}
            </option>
          ))}
        </optgroup>
      ))}
      <option value="">{trans.__('Another…')}</option>
    </Choice>
  );
}

async function askForModel(trans: TranslationBundle, text: string): Promise<string | null> {
  const { value } = await InputDialog.getText({
    title: trans.__('Which model answers?'),
    label: trans.__('provider:model, for example ollama:qwen3'),
    text
  });
  return value && value.trim();
}

interface IChoiceProps {
  label: string;
  /** The few words that stand for the choice while it is closed. */
  shown: string;
  value: string;
  onChange: (value: string) => void;
  children: React.ReactNode;
}

/** A native list of choices under a short label. */
function Choice({ label, shown, value, onChange, children }: IChoiceProps): React.JSX.Element {
  return (
    <span className="jp-Agent-choice" title={label}>
      <span aria-hidden="true">{shown}</span>
      <caretDownEmptyIcon.react tag="span" className="jp-Agent-caret" />
      <select aria-label={label} value={value} onChange={event => onChange(event.target.value)}>
        {children}
      </select>
    </span>
  );
}
