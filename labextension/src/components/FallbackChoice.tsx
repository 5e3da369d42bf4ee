import * as React from 'react';
import { modelName, titleCase } from '../wording/callDescriptions';
import { useModels, useServices } from './services';

/** Value for the server's choice; an empty one means no fallback. */
const SERVER = 'server';

/** Choice of the model that answers if the model fails or refuses. */
export function FallbackChoice(): React.JSX.Element | null {
  const { assistant, trans } = useServices();
  const { choice, models } = useModels();
  const { fallback } = choice;
  if (!models) {
    return null;
  }
  const offered = models.providers.filter(
    ({ name, credentials, models: names }) => credentials && name !== 'demo' && names.length
  );
  const listed = offered.flatMap(({ name, models: names }) => names.map(one => `${name}:${one}`));
  const standard = models.fallback ? modelName(models.fallback) : trans.__('none');
  return (
    <section aria-label={trans.__('Fallback model')}>
      <h3>{trans.__('Fallback model')}</h3>
      <label className="jp-Agent-sharing">
        <span>{trans.__('Answers if your model fails or refuses. It gets the same data.')}</span>
        <select
          aria-label={trans.__('Fallback model')}
          value={fallback ?? SERVER}
          onChange={({ target }) =>
            assistant.choose({ fallback: target.value === SERVER ? null : target.value })
          }
        >
          <option value={SERVER}>{trans.__('Server default (%1)', standard)}</option>
          <option value="">{trans.__('None')}</option>
          {fallback && !listed.includes(fallback) && (
            <option value={fallback}>{modelName(fallback)}</option>
          )}
          {offered.map(({ name, models: names }) => (
            <optgroup key={name} label={titleCase(name)}>
              {names.map(one => (
                <option key={one} value={`${name}:${one}`}>
                  {modelName(one)}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
      </label>
    </section>
  );
}
