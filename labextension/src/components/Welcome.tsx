import * as React from 'react';
import { useAssistant, useServices } from './services';

/** An empty conversation: who answers, and a few things to ask for. */
export function Welcome(): React.JSX.Element {
  const { assistant, trans } = useServices();
  const { models, model, place } = useAssistant();
  const chosen = model ?? models?.default ?? '';
  const keyless = models?.providers.filter(({ credentials }) => !credentials) ?? [];
  const ideas = place
    ? [
        trans.__('Explain what this notebook does'),
        trans.__('Run all cells and fix what fails'),
        trans.__('Plot the most interesting result')
      ]
    : [trans.__('What can you do?')];
  return (
    <div className="jp-Agent-welcome">
      <p>
        {trans.__(
          'Ask for something, and watch it happen in your notebook. Every change can be undone.'
        )}
      </p>
      {ideas.map(idea => (
        <button key={idea} className="jp-Agent-idea" onClick={() => void assistant.ask(idea)}>
          {idea}
        </button>
      ))}
      {models && (
        <p className="jp-Agent-notice">
          {chosen.startsWith('demo:')
            ? trans.__('The tour answers: a scripted demonstration with real tools, not a model.')
            : trans.__('%1 answers.', chosen.replace(/^[^:]*:/, ''))}{' '}
          {keyless.length > 0 && (
            <button className="jp-Agent-link" onClick={() => assistant.setView('models')}>
              {trans.__('Add a key')}
            </button>
          )}
        </p>
      )}
    </div>
  );
}
