import { YNotebook } from '@jupyter/ydoc';
import { CodeCellModel, MarkdownCellModel, type ICellModel } from '@jupyterlab/cells';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { OpenNotebooks } from '../../src/bridge/openNotebooks';
import type { Move, Renames } from '../../src/bridge/renames';
import type { Assistant } from '../../src/chat/assistant';
import { Draft } from '../../src/composer/draft';
import { addCommands } from '../../src/panel/commands';
import type { AssistantPanel } from '../../src/panel/panel';
import type { CellPrompts } from '../../src/prompt/cellPrompts';

const trans = nullTranslator.load('jupyter_agent');

const page = new YNotebook();
afterAll(() => page.dispose());
const shared = (cell: object): never => page.addCell(cell as never) as never;
const code = (...outputs: object[]): ICellModel =>
  new CodeCellModel({ sharedModel: shared({ cell_type: 'code', source: '', outputs }) });
const markdown = (): ICellModel =>
  new MarkdownCellModel({ sharedModel: shared({ cell_type: 'markdown', source: '' }) });

const ERROR = { output_type: 'error', ename: 'NameError', evalue: 'x', traceback: [] };
const TEXT = { output_type: 'stream', name: 'stderr', text: 'Warning' };

describe('addCommands', () => {
  let model: ICellModel | null;
  let commands: CommandRegistry;

  beforeEach(() => {
    const signals = ['currentChanged', 'activeCellChanged', 'selectionChanged', 'widgetAdded'];
    const tracker = Object.assign(Object.fromEntries(signals.map(name => [name, new Signal({})])), {
      currentWidget: { context: { path: 'n.ipynb' } }
    });
    Object.defineProperty(tracker, 'activeCell', { get: () => model && { model, editor: null } });
    const notebooks = new OpenNotebooks(
      tracker as unknown as INotebookTracker,
      () => undefined,
      () => ''
    );
    const renames = { moved: new Signal<Renames, Move>({} as Renames) };
    const draft = new Draft(notebooks, renames);
    commands = new CommandRegistry();
    addCommands({
      app: { commands, shell: {} } as JupyterFrontEnd,
      assistant: { draft } as Assistant,
      panel: {} as AssistantPanel,
      prompts: {} as CellPrompts,
      palette: null,
      trans
    });
  });

  it.each([
    ['a cell with an error', code(ERROR), true],
    ['a cell with an error among its outputs', code(TEXT, ERROR, TEXT), true],
    ['a cell without outputs', code(), false],
    ['a cell with other outputs', code(TEXT), false],
    ['a Markdown cell', markdown(), false],
    ['no cell', null, false]
  ])('enables “Fix the Error in This Cell” only for a cell with an error: %s', (_, cell, fits) => {
    model = cell;
    expect(commands.isEnabled('jupyter-agent:fix-error')).toBe(fits);
    expect(commands.isEnabled('jupyter-agent:explain-cell')).toBe(true);
  });
});
