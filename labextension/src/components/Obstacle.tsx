import * as React from 'react';
import { useAssistant, useObstacle } from './services';

/** Says why the assistant cannot work in notebooks, if so. The server puts commands to enter between backticks. */
export function Obstacle(): React.JSX.Element | null {
  const { view } = useAssistant();
  const obstacle = useObstacle();
  if (view !== 'conversation' || !obstacle) {
    return null;
  }
  return (
    <p role="alert" className="jp-Agent-failure">
      {obstacle
        .split('`')
        .map((text, index) => (index % 2 ? <code key={index}>{text}</code> : text))}
    </p>
  );
}
