import * as React from 'react';
import { modelName, titleCase } from '../wording/callDescriptions';
import { refusalWords } from '../wording/failureWords';
import { suggestedRequests } from '../wording/suggestedRequests';
import { AcceptedKey, Key } from './Models';
import { useModels, useServices } from './services';

/** An empty conversation: the model that answers, and a few suggestions. */
export function Welcome(): React.JSX.Element {
  const { assistant, notebooks, trans } = useServices();
  const { models, problem } = useModels();
  const chosen = assistant.models.answering;
  const touring = chosen.startsWith('demo:');
  const offered = suggestedRequests(notebooks.glance(), trans);
  const shown = touring ? [trans.__('Show me what you can do'), ...offered] : offered;
  if (problem) {
    return (
      <div role="alert" className="jp-Agent-failure">
        <p>
          {problem.reason === 'signed_out'
            ? refusalWords(problem, trans)
            : problem.message
              ? trans.__(
                  'The assistant is not running on the Jupyter server (%1). Install jupyter_agent where the server runs and restart it.',
                  problem.message
                )
              : trans.__('The Jupyter server does not answer.')}
        </p>
        <button className="jp-Agent-button" onClick={() => void assistant.models.read()}>
          {trans.__('Try again')}
        </button>
      </div>
    );
  }
  return (
    <div className="jp-Agent-welcome">
      <p>
        {trans.__(
          'Describe what you want and watch it happen in your notebook. You can undo every edit.'
        )}
      </p>
      <div className="jp-Agent-ideas">
        {shown.map(idea => (
          <button key={idea} className="jp-Agent-idea" onClick={() => void assistant.ask(idea)}>
            {idea}
          </button>
        ))}
      </div>
      <p className="jp-Agent-notice">{trans.__('Type @ to add context, / for commands.')}</p>
      <AcceptedKey />
      {models && (touring ? <Setup /> : <WhoAnswers model={chosen} />)}
    </div>
  );
}

function WhoAnswers({ model }: { model: string }): React.JSX.Element {
  const { assistant, trans } = useServices();
  const provider = titleCase(model.split(':', 1)[0]);
  return (
    <p className="jp-Agent-notice">
      {trans.__(
        'Using %1. Your messages and the cells it reads are sent to %2.',
        modelName(model),
        provider
      )}{' '}
      <button className="jp-Agent-link" onClick={() => assistant.setView('models')}>
        {trans.__('Settings')}
      </button>
    </p>
  );
}

/** How to switch from the tour to a model. */
function Setup(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { models } = useModels();
  const anthropic = models?.providers.find(({ name }) => name === 'anthropic');
  return (
    <section className="jp-Agent-setup" aria-label={trans.__('Set up a model')}>
      <p>
        {trans.__('Demo: a script, not an AI. Real tools, free, nothing leaves this computer.')}
      </p>
      {anthropic && !anthropic.credentials && <Key provider={anthropic.name} known={false} />}
      <button className="jp-Agent-link" onClick={() => assistant.setView('models')}>
        {trans.__('Settings')}
      </button>
    </section>
  );
}
