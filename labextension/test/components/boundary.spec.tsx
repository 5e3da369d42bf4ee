import { nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { Boundary } from '../../src/components/Boundary';

const trans = nullTranslator.load('jupyter_agent');

function Part({ broken }: { broken: boolean }): React.JSX.Element {
  if (broken) {
    throw new Error('a fault of ours');
  }
  return <hr />;
}

class Shown extends ReactWidget {
  broken = true;

  protected render(): React.JSX.Element {
    return (
      <>
        <br />
        <Boundary trans={trans} of={this.broken}>
          <Part broken={this.broken} />
        </Boundary>
      </>
    );
  }
}

describe('Boundary', () => {
  it('keeps a fault to its place, and tries again with the next thing to show', async () => {
    const logged = jest.spyOn(console, 'error').mockImplementation();
    const shown = new Shown();
    Widget.attach(shown, document.body);
    await shown.renderPromise;
    expect(shown.node.innerHTML).toMatch(/^<br><p.*This part cannot be shown/);
    expect(logged.mock.calls.flat().join()).toContain('a fault of ours');
    shown.broken = false;
    MessageLoop.sendMessage(shown, Widget.Msg.UpdateRequest);
    await shown.renderPromise;
    expect(shown.node.innerHTML).toBe('<br><hr>');
    shown.dispose();
    logged.mockRestore();
  });
});
