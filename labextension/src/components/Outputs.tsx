import type { IOutput } from '@jupyterlab/nbformat';
import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import type { TranslationBundle } from '@jupyterlab/translation';
import { JSONExt } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import type { IRunOutput } from '../api/protocol';
import { omissionOf } from '../chat/plots';
import { placesOf, ranges } from '../wording/cellNames';
import { useServices } from './services';

interface IRunsProps {
  runs: readonly IRunOutput[];
  notebook: string | null;
}

/** The outputs of runs; for outputs too large for an answer, the cells that show them. */
export function Runs({ runs, notebook }: IRunsProps): React.JSX.Element {
  const shown = runs.map(run => ({ run, outputs: run.outputs.filter(each => !omissionOf(each)) }));
  return (
    <>
      {shown.map(
        ({ run, outputs }) => outputs.length > 0 && <Outputs key={run.run_id} outputs={outputs} />
      )}
      <LeftOut runs={runs} notebook={notebook} />
    </>
  );
}

/** "Plots in cells 2–41" */
function LeftOut({ runs, notebook }: IRunsProps): React.JSX.Element | null {
  const { notebooks, trans } = useServices();
  const of = runs.filter(run => run.outputs.some(omissionOf));
  const [first] = of;
  if (!first) {
    return null;
  }
  const arePlots = of.every(run => run.outputs.every(each => omissionOf(each)?.plots !== 0));
  const ids = of.flatMap(({ cell_id }) => cell_id ?? []);
  const places = placesOf(ids, cell_id =>
    notebook ? notebooks.position({ notebook, cell_id }) : null
  );
  const cells = places ? ranges(places) : '';
  const { cell_id } = first;
  if (!notebook || !cell_id || !places) {
    return (
      <p className="jp-Agent-note">
        {arePlots
          ? trans.__('A plot that is too large to show here')
          : trans.__('An output that is too large to show here')}
      </p>
    );
  }
  const words = arePlots
    ? trans._n('Plot in cell %2', 'Plots in cells %2', places.length, cells)
    : trans._n('Output in cell %2', 'Outputs in cells %2', places.length, cells);
  return (
    <button className="jp-Agent-link" onClick={() => void notebooks.reveal({ notebook, cell_id })}>
      {words}
    </button>
  );
}

/** "NameError: name 'x' is not defined", of the first run that failed. */
export function lastErrorLine(runs: readonly IRunOutput[]): string {
  const errors = runs.flatMap(({ outputs }) =>
    outputs.filter(({ output_type }) => output_type === 'error')
  );
  const { ename, evalue } = (errors[0] ?? {}) as { ename?: string; evalue?: string };
  const said = String(evalue ?? '')
    .trim()
    .split('\n')
    .at(-1);
  return ename ? [ename, said].filter(Boolean).join(': ') : '';
}

/** The outputs of a run as a notebook shows them; they may still grow. */
function Outputs({ outputs }: { outputs: readonly IOutput[] }): React.JSX.Element {
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

/** Let screen readers say "Plot", and skip empty column headings, as pandas writes them. */
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
