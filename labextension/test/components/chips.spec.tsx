import { nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import type { Attachment, IPicture } from '../../src/api/protocol';
import { Chips, Picture } from '../../src/components/Chips';
import type { IServices } from '../../src/components/services';
import { Services } from '../../src/components/services';

const trans = nullTranslator.load('jupyter_agent');
const services = { trans, focusMessage: () => undefined } as unknown as IServices;
const HIDDEN = ['\u202A', '\u202B', '\u202C', '\u202D', '\u202E', '\u2066', '\u2069', '\u200F'];

async function show(chip: React.JSX.Element): Promise<HTMLElement> {
  const shown = ReactWidget.create(<Services.Provider value={services}>{chip}</Services.Provider>);
  Widget.attach(shown, document.body);
  MessageLoop.flush();
  await shown.renderPromise;
  const node = shown.node.querySelector<HTMLElement>('.jp-Agent-chip')!;
  shown.dispose();
  return node;
}

describe('The chip of a file', () => {
  it.each(HIDDEN)('shows a character that reverses its name as its code point: %j', async odd => {
    const name = `b${odd}txt.doc`;
    const told = `b⟨U+${odd.codePointAt(0)!.toString(16).toUpperCase()}⟩txt.doc`;
    const picture: IPicture = {
      type: 'file',
      mediaType: 'text/plain',
      filename: name,
      url: 'data:,'
    };
    const chip = await show(<Picture picture={picture} index={0} onRemove={() => undefined} />);
    expect(chip.querySelector('span')!.textContent).toBe(told);
    expect(chip.querySelector('button')!.getAttribute('aria-label')).toBe(`Remove ${told}`);

    const file: Attachment = { type: 'file', path: `${odd}data/${name}` };
    const attached = await show(<Chips attachments={[file]} />);
    expect(attached.textContent).toBe(`@ ${told}`);
    expect(attached.title).toBe(told.replace('b', '').replace('txt.doc', `data/${told}`));
  });
});
