import type { IOutput } from '@jupyterlab/nbformat';
import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import type { TranslationBundle } from '@jupyterlab/translation';
import { JSONExt } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { useServices } from './services';

/** The outputs of a run as a notebook shows them; they may still grow. */
export function Outputs({ outputs }: { outputs: readonly IOutput[] }): React.JSX.Element {
  const { rendermime, trans } = useServices();
  const [model] = React.useState(() => new OutputAreaModel({ trusted: false }));
  const host = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => {
    const area = new SimplifiedOutputArea({ model, rendermime });
    const naming = new MutationObserver(() => nameForReaders(host.current!, trans));
    naming.observe(host.current!, { childList: true, subtree: true });
    Widget.attach(area, host.current!);
    return () => {
      naming.disconnect();
      area.dispose();
    };
  }, [model, rendermime, trans]);
  React.useLayoutEffect(() => update(model, outputs), [model, outputs]);
  return <div ref={host} className="jp-Agent-outputs" />;
}

/** Screen readers say "Plot", and no heads of columns that have none, as pandas writes them. */
function nameForReaders(outputs: HTMLElement, trans: TranslationBundle): void {
  for (const image of outputs.querySelectorAll('img:not([alt])')) {
    image.setAttribute('alt', trans.__('Plot'));
  }
  for (const head of outputs.querySelectorAll('th:empty')) {
    head.replaceWith(document.createElement('td'));
  }
}

/** Change only what differs, so that a picture does not flicker while text grows below it. */
function update(model: OutputAreaModel, outputs: readonly IOutput[]): void {
  if (model.length > outputs.length) {
    model.clear();
  }
  outputs.forEach((output, index) => {
    if (index >= model.length) {
      model.add(output);
    } else if (!same(model.get(index).toJSON(), output)) {
      model.set(index, output);
    }
  });
}

function same(old: IOutput, now: IOutput): boolean {
  return JSONExt.deepEqual(old, now);
}
