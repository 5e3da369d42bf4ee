import { InputDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownEmptyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { Effort, Mode } from '../api/protocol';
import { modelName, titleCase } from '../wording/callDescriptions';
import { efforts } from '../wording/efforts';
import { modes } from '../wording/modes';
import { useAssistant, useModels, useServices } from './services';

/** What the assistant may do without asking. */
export function ModeChoice(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { mode } = useAssistant();
  const all = modes(trans);
  return (
    <Choice
      label={trans.__('Mode')}
      title={trans.__('Mode: %1', all[mode].meaning)}
      shown={all[mode].name}
      value={mode}
      onChange={value => assistant.setMode(value as Mode)}
    >
      {Object.entries(all).map(([value, { name, meaning }]) => (
        <option key={value} value={value}>
          {name}: {meaning}
        </option>
      ))}
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
    const model = value || (await askForModel(trans, chosen));
    if (model) {
      assistant.setModel(model);
    }
  };
  return (
    <Choice
      label={trans.__('Model')}
      title={trans.__('Model: %1 answers', chosen)}
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

/** How much the model thinks before it answers; not for the scripted tour. */
export function EffortChoice(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { effort, models } = useModels();
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
      onChange={value => assistant.setEffort((value as Effort) || null)}
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
  /** What the choice means, said to those who point at it. */
  title: string;
  /** The few words that stand for the choice while it is closed. */
  shown: string;
  value: string;
  onChange: (value: string) => void;
  children: React.ReactNode;
}

/** A native list of choices under a short label. */
function Choice(props: IChoiceProps): React.JSX.Element {
  const { label, title, shown, value, onChange, children } = props;
  return (
    <span className="jp-Agent-choice" title={title}>
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
