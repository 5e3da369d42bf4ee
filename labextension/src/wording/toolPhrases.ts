import type { TranslationBundle } from '@jupyterlab/translation';
import type { IRunOutput } from '../api/protocol';
import type { Locate } from './cellNames';
import { listOf } from './cellNames';
import { mcpTool } from './mcpTools';
import { OF_SERVICES, servicePhrase } from './servicePhrases';
import { verifying } from './verification';

/** The fields of tools' inputs that descriptions use. */
export interface IInput {
  cell_id?: string;
  cell_ids?: string[];
  cells?: unknown[];
  edits?: { cell_id?: string }[];
  /** Whether the written cells are run afterwards. */
  run?: boolean;
  steps?: unknown[];
  type?: string;
  after?: string;
  before?: string;
  query?: string;
  path?: string;
  url?: string;
  names?: string[];
}

/** To do, doing, done. */
export type Phrase = [todo: string, doing: string, done: string];

interface IPhraseOptions {
  tool: string;
  input: IInput;
  runs: readonly IRunOutput[];
  /** The result so far. */
  output?: unknown;
  /** "cell 5", or "a cell" if its position is not known. */
  cell: string;
  /** The position of the cell that was added, once it is known. */
  added?: number | null;
  /** The path of its notebook, if it has to be named. */
  notebook: string | null;
  locate: Locate;
  trans: TranslationBundle;
}

/** What a tool does, in plain words: "Cell 5 edited", "Cell 5 edited in sales.ipynb". */
export function phrase(options: IPhraseOptions): Phrase {
  const { tool, notebook, trans } = options;
  const remote = mcpTool(tool);
  if (remote) {
    return [
      trans.__('Call %1 on %2', remote.tool, remote.server),
      trans.__('Calling %1 on %2', remote.tool, remote.server),
      trans.__('Called %1 on %2', remote.tool, remote.server)
    ];
  }
  const words = plainly(options);
  const named = !notebook || NAMED.includes(tool);
  return named ? words : (words.map(word => trans.__('%1 in %2', word, notebook)) as Phrase);
}

/** Tools whose phrase names their file, or that use no file. */
const NAMED = [
  'get_notebook_state',
  'verify_notebook',
  'read_file',
  'list_files',
  'create_notebook',
  'wait_for_run',
  'write_plan',
  ...OF_SERVICES
];

function plainly(options: IPhraseOptions): Phrase {
  const { tool, input, cell, notebook, locate, trans } = options;
  switch (tool) {
    case 'get_notebook_state': {
      const it = notebook ?? trans.__('the notebook');
      return [trans.__('Read %1', it), trans.__('Reading %1', it), trans.__('Read %1', it)];
    }
    case 'read_cells': {
      const cells = listOf(input.cell_ids ?? [], locate, trans);
      return [
        trans.__('Read %1', cells),
        trans.__('Reading %1', cells),
        trans.__('Read %1', cells)
      ];
    }
    case 'search_notebook': {
      const { query = '' } = input;
      return [
        trans.__('Search for “%1”', query),
        trans.__('Searching for “%1”', query),
        trans.__('Searched for “%1”', query)
      ];
    }
    case 'create_cell':
      return creation(options);
    case 'create_cells':
      return input.cells?.length === 1 && !input.run
        ? creation(options)
        : severalCells(input, trans);
    case 'edit_cells':
      return severalEdits(input, locate, trans);
    case 'update_cell':
      return [
        trans.__('Edit %1', cell),
        trans.__('Editing %1', cell),
        passive(trans.__('%1 edited', cell))
      ];
    case 'delete_cell':
      return [
        trans.__('Delete %1', cell),
        trans.__('Deleting %1', cell),
        passive(trans.__('%1 deleted', cell))
      ];
    case 'move_cell':
      return moving(options);
    case 'verify_notebook':
      return verifying(options);
    case 'run_cell':
      return [trans.__('Run %1', cell), trans.__('Running %1', cell), trans.__('Ran %1', cell)];
    case 'run_cells': {
      const cells = ranCells(options);
      return [trans.__('Run %1', cells), trans.__('Running %1', cells), trans.__('Ran %1', cells)];
    }
    case 'inspect_variables': {
      const names = input.names?.join(', ') ?? trans.__('the variables');
      return [
        trans.__('Look at %1', names),
        trans.__('Looking at %1', names),
        trans.__('Looked at %1', names)
      ];
    }
    case 'clear_outputs': {
      const cells = ranCells(options);
      return [
        trans.__('Clear the outputs of %1', cells),
        trans.__('Clearing the outputs of %1', cells),
        trans.__('Cleared the outputs of %1', cells)
      ];
    }
    case 'read_file': {
      const { path = '' } = input;
      if (!path) {
        return plainPhrase('list_files', trans);
      }
      return [trans.__('Read %1', path), trans.__('Reading %1', path), trans.__('Read %1', path)];
    }
    case 'create_notebook': {
      const { path = '' } = input;
      return [
        trans.__('Create %1', path),
        trans.__('Creating %1', path),
        trans.__('Created %1', path)
      ];
    }
    default:
      return servicePhrase(tool, input, trans) ?? plainPhrase(tool, trans);
  }
}

/** Phrases of tools whose input adds nothing. */
function plainPhrase(tool: string, trans: TranslationBundle): Phrase {
  switch (tool) {
    case 'wait_for_run':
      return [
        trans.__('Wait for a run'),
        trans.__('Waiting for a run'),
        trans.__('Waited for a run')
      ];
    case 'interrupt_kernel':
      return [
        trans.__('Interrupt the kernel'),
        trans.__('Interrupting the kernel'),
        trans.__('Interrupted the kernel')
      ];
    case 'restart_kernel':
      return [
        trans.__('Restart the kernel'),
        trans.__('Restarting the kernel'),
        trans.__('Restarted the kernel')
      ];
    case 'run_code':
      return [trans.__('Run code'), trans.__('Running code'), trans.__('Ran code')];
    case 'write_plan':
      return [trans.__('Write a plan'), trans.__('Writing a plan'), trans.__('Plan')];
    case 'list_files':
      return [trans.__('List files'), trans.__('Listing files'), trans.__('Listed files')];
    default:
      return [trans.__('Use %1', tool), trans.__('Using %1', tool), trans.__('Used %1', tool)];
  }
}

/** "Added 3 cells and ran them". */
function severalCells({ cells = [], run }: IInput, trans: TranslationBundle): Phrase {
  const count = Array.isArray(cells) ? cells.length : 0;
  return run
    ? [
        trans._n('Add a cell and run it', 'Add %1 cells and run them', count),
        trans._n('Adding a cell and running it', 'Adding %1 cells and running them', count),
        trans._n('1 cell added and run', '%1 cells added and run', count)
      ]
    : [
        trans._n('Add a cell', 'Add %1 cells', count),
        trans._n('Adding a cell', 'Adding %1 cells', count),
        trans._n('1 cell added', '%1 cells added', count)
      ];
}

/** "Edited and ran cells 2, 4". */
function severalEdits(
  { edits = [], run }: IInput,
  locate: Locate,
  trans: TranslationBundle
): Phrase {
  const given = Array.isArray(edits) ? edits : []; // a model may write anything
  const ids = new Set(given.flatMap(edit => edit?.cell_id ?? []));
  const cells = listOf([...ids], locate, trans);
  return run
    ? [
        trans.__('Edit and run %1', cells),
        trans.__('Editing and running %1', cells),
        passive(trans.__('%1 edited and run', cells))
      ]
    : [
        trans.__('Edit %1', cells),
        trans.__('Editing %1', cells),
        passive(trans.__('%1 edited', cells))
      ];
}

/** "Cell 6 added", with its own position once it has one. */
function creation({ input, added, locate, trans }: IPhraseOptions): Phrase {
  const { after, before } = input;
  const [below, above] = [after && locate(after), before && locate(before)];
  const done = added ? trans.__('Cell %1 added', added) : trans.__('A cell added');
  if (below) {
    return [
      trans.__('Add a cell after %1', below),
      trans.__('Adding a cell after %1', below),
      done
    ];
  }
  if (above) {
    return [
      trans.__('Add a cell before %1', above),
      trans.__('Adding a cell before %1', above),
      done
    ];
  }
  return [trans.__('Add a cell'), trans.__('Adding a cell'), done];
}

/** "Moved cell 3 below 6"; its position has changed by then, so it is named only before the move. */
function moving({ cell, input: { after, before }, locate, trans }: IPhraseOptions): Phrase {
  const below = after ? locate(after) : null;
  const above = before ? locate(before) : null;
  const place = below ? trans.__(' below %1', below) : above ? trans.__(' above %1', above) : '';
  return [
    trans.__('Move %1', cell) + place,
    trans.__('Moving %1', cell) + place,
    trans.__('Moved %1', cell) + place
  ];
}

/** "cells 2–7": the cells that ran, or that the call names; "all cells" if it names none. */
function ranCells({ input, runs, locate, trans }: IPhraseOptions): string {
  const ids = runs.length ? runs.flatMap(({ cell_id }) => cell_id ?? []) : input.cell_ids;
  return ids ? listOf(ids, locate, trans) : trans.__('all cells');
}

/** "Cell 5 edited": a sentence that starts with the name of a cell. */
function passive(words: string): string {
  return words.charAt(0).toLocaleUpperCase() + words.slice(1);
}
