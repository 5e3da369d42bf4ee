import * as React from 'react';
import { Approvals } from './Approvals';
import { Composer } from './Composer';
import { Conversations } from './Conversations';
import { Header } from './Header';
import { Log } from './Log';
import { Models } from './Models';
import type { IServices } from './services';
import { Services, useAssistant } from './services';
import { Usage } from './Usage';

/** All that the panel shows. */
export function Content({ services }: { services: IServices }): React.JSX.Element {
  return (
    <Services.Provider value={services}>
      <Header />
      <View />
      <Approvals />
      <Composer />
      <Usage />
    </Services.Provider>
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
  }
}
