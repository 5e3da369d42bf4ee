import * as React from 'react';
import { Approvals } from './Approvals';
import { Boundary } from './Boundary';
import { Composer } from './Composer';
import { Conversations } from './Conversations';
import { FileConflicts } from './FileConflicts';
import { Header } from './Header';
import { Help } from './Help';
import { TrustInstructions } from './Instructions';
import { Log } from './Log';
import { Models } from './Models';
import { Obstacle } from './Obstacle';
import { ReviewBar } from './Review';
import type { IServices } from './services';
import { Services, useAssistant, useServices } from './services';
import { WithheldNotice } from './Sharing';
import { UnsavedTexts } from './UnsavedTexts';
import { Usage } from './Usage';
import { Verified } from './Verified';
import { Waiting } from './Waiting';

export interface IContentProps {
  services: IServices;
  /** Called when everything is in the page and subscribed to its stores; its result is called on removal. */
  onMounted: () => () => void;
}

/** The whole content of the panel. */
export function Content({ services, onMounted }: IContentProps): React.JSX.Element {
  React.useEffect(onMounted, [onMounted]); // with the subscriptions: React reverts text typed before
  return (
    <Services.Provider value={services}>
      <Panel />
    </Services.Provider>
  );
}

function Panel(): React.JSX.Element {
  const { trans, leave } = useServices();
  const { conversation, view } = useAssistant();
  const guarded = (part: React.JSX.Element): React.JSX.Element => (
    <Boundary trans={trans} of={conversation}>
      {part}
    </Boundary>
  );
  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (event.key !== 'Escape' || event.defaultPrevented || event.nativeEvent.isComposing) {
      return;
    }
    event.stopPropagation();
    if (conversation.busy && !conversation.approvals.length) {
      void conversation.stop();
    } else {
      leave(); // leaving a question does not answer it
    }
  };
  return (
    <div className="jp-Agent-panel" data-view={view} onKeyDown={onKeyDown}>
      {guarded(<Header />)}
      {guarded(<View />)}
      {guarded(<Approvals />)}
      {guarded(<FileConflicts />)}
      {guarded(<UnsavedTexts />)}
      {guarded(<TrustInstructions />)}
      {guarded(<Waiting />)}
      {guarded(<WithheldNotice />)}
      {guarded(<Obstacle />)}
      {guarded(<Verified />)}
      {guarded(<ReviewBar />)}
      {guarded(<Composer />)}
      {guarded(<Usage />)}
    </div>
  );
}

function View(): React.JSX.Element {
  const { view } = useAssistant();
  switch (view) {
    case 'conversation':
      return <Log />;
    case 'conversations':
      return <Conversations />;
    case 'models':
      return <Models />;
    case 'help':
      return <Help />;
  }
}
