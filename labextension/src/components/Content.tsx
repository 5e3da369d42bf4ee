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
import { KeptBack } from './Sharing';
import { UnsavedTexts } from './UnsavedTexts';
import { Usage } from './Usage';
import { Verified } from './Verified';
import { Waiting } from './Waiting';

export interface IContentProps {
  services: IServices;
  /** Called when all of it is in the page and follows its stores; what it returns, when it is taken out. */
  onMounted: () => () => void;
}

/** All that the panel shows. */
export function Content({ services, onMounted }: IContentProps): React.JSX.Element {
  React.useEffect(onMounted, [onMounted]); // with the subscriptions: React takes back what is typed before
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
      leave(); // a question is not answered by leaving it
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
      {guarded(<KeptBack />)}
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
