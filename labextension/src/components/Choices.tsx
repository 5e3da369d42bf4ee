import { InputDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownEmptyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { Effort, Mode } from '../api/protocol';
import { MODES } from '../chat/modes';
import { modelName, titleCase } from '../wording/callDescriptions';
import { efforts } from '../wording/efforts';
import { modes } from '../wording/modes';
import { useAssistant, useModels, useServices } from './services';

/** Choice of the mode. */
export function ModeChoice(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { mode, freestMode } = useAssistant();
  const all = modes(trans);
  return (
    <Choice
      label={trans.__('Mode')}
      title={trans.__('Mode: %1', all[mode].meaning)}
      shown={all[mode].name}
      mode={mode}
      value={mode}
      onChange={value => assistant.setMode(value as Mode)}
    >
      {MODES.map((value, freedom) => {
        const isFreer = freedom > MODES.indexOf(freestMode);
        return (
          <option key={value} value={value} disabled={isFreer}>
            {all[value].name}:{' '}
            {isFreer ? trans.__('not allowed by your administrator') : all[value].meaning}
          </option>
        );
      })}
    </Choice>
  );
}

/** The model that answers. */
export function ModelChoice(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { models } = useModels();
  const chosen = assistant.models.answering;
  if (!models) {
    return null;
  }
  const offered = models.providers.filter(({ models: names }) => names.length);
  const listed = offered.some(({ name, models: names }) =>
    names.some(other => chosen === `${name}:${other}`)
  );
  const choose = async (value: string): Promise<void> => {
    const model = value || (await askForModel(trans, chosen, await assistant.models.listModels()));
    if (model) {
      assistant.choose({ model });
    }
  };
  return (
    <Choice
      label={trans.__('Model')}
      title={trans.__('Model: %1', chosen)}
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
              {modelName(`${name}:${other}`)}
            </option>
          ))}
        </optgroup>
      ))}
      <option value="">{trans.__('Other model…')}</option>
    </Choice>
  );
}

/** How much the model thinks before it answers; not for the scripted tour. */
export function EffortChoice(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { choice, models } = useModels();
  const { effort } = choice;
  if (!models || assistant.models.answering.startsWith('demo:')) {
    return null;
  }
  const names = efforts(trans);
  const shown = effort ? names[effort] : trans.__('Effort');
  return (
    <Choice
      label={trans.__('Effort')}
      title={
        effort
          ? trans.__('How much the model thinks: %1', names[effort])
          : trans.__('How much the model thinks: left to the model')
      }
      shown={shown}
      value={effort ?? ''}
      onChange={value => assistant.choose({ effort: (value as Effort) || null })}
    >
      <option value="">{trans.__('Default')}</option>
      {Object.entries(names).map(([value, name]) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </Choice>
  );
}

/** Ask for a model from the providers' lists, or by name. */
async function askForModel(
  trans: TranslationBundle,
  text: string,
  items: string[]
): Promise<string | null> {
  const title = trans.__('Choose a model');
  const label = trans.__('provider:model, for example ollama:qwen3');
  const { value } = items.length
    ? await InputDialog.getItem({ title, label, items, current: text, editable: true })
    : await InputDialog.getText({ title, label, text });
  return value && value.trim();
}

interface IChoiceProps {
  label: string;
  /** Tooltip with the meaning of the choice. */
  title: string;
  /** Short text shown while the list is closed. */
  shown: string;
  /** For the choice of a mode: the mode. */
  mode?: Mode;
  value: string;
  onChange: (value: string) => void;
  children: React.ReactNode;
}

/** A native list of choices under a short label. */
function Choice(props: IChoiceProps): React.JSX.Element {
  const { label, title, shown, mode, value, onChange, children } = props;
  return (
    <span className="jp-Agent-choice" data-mode={mode} title={title}>
      <span aria-hidden="true">{shown}</span>
      <caretDownEmptyIcon.react tag="span" className="jp-Agent-caret" />
      <select
        aria-label={label}
        title={title}
        value={value}
        onChange={event => onChange(event.target.value)}
      >
        {children}
      </select>
    </span>
  );
}
