import { Signal } from '@lumino/signaling';
import { RenamingPage } from '../renames';
import { Draft } from '../../src/composer/draft';
import type { IPlace, OpenNotebooks } from '../../src/bridge/openNotebooks';

class Tracked {
  place: IPlace | null = null;
  readonly moved = new Signal<this, void>(this);

  open(notebook: string): void {
    this.place = { notebook, attachments: [] };
    this.moved.emit();
  }
}

function createDraft(notebooks = new Tracked()): {
  notebooks: Tracked;
  page: RenamingPage;
  draft: Draft;
} {
  const page = new RenamingPage();
  return { notebooks, page, draft: new Draft(notebooks as unknown as OpenNotebooks, page.renames) };
}

beforeEach(() => sessionStorage.clear());

test('a question that was begun before a notebook was open is about the first one', () => {
  const { notebooks, draft } = createDraft();
  draft.setText('What is in here?');
  notebooks.open('a.ipynb');
  notebooks.open('b.ipynb');
  expect(draft.state.place?.notebook).toBe('a.ipynb');
});

test('a notebook that the user took away stays away, also over a reload', () => {
  const { notebooks, draft } = createDraft();
  notebooks.open('a.ipynb');
  draft.setText('What is a mean?');
  draft.detach();
  notebooks.open('b.ipynb');
  const { draft: reloaded } = createDraft(notebooks);
  notebooks.open('c.ipynb');
  expect(draft.state.place).toBeNull();
  expect(reloaded.state.place).toBeNull();
});

test('the next question is about where the user is again', () => {
  const { notebooks, draft } = createDraft();
  notebooks.open('a.ipynb');
  draft.setText('What is a mean?');
  draft.detach();
  draft.clear();
  expect(draft.state.place?.notebook).toBe('a.ipynb');
});

test('what is typed is in the field even if the browser has no room left to store it', () => {
  const { draft } = createDraft();
  const full = jest.spyOn(Storage.prototype, 'setItem').mockImplementation(() => {
    throw new DOMException('', 'QuotaExceededError');
  });
  draft.setText('What is in here?');
  expect(draft.state.text).toBe('What is in here?');
  full.mockRestore();
  draft.clear();
});

test('a question stays about its notebook and files when these, or their folders, are renamed', () => {
  const { notebooks, page, draft } = createDraft();
  const cell = { type: 'cell', cell_id: 'c0' } as const;
  notebooks.place = {
    notebook: 'old/Untitled.ipynb',
    attachments: [{ ...cell, notebook: 'old/Untitled.ipynb' }]
  };
  draft.setText('Set x to 3');
  draft.attach(
    { type: 'file', path: 'older/sales.csv' },
    { type: 'file', path: 'old/sales.csv' },
    { type: 'variable', name: 'old' }
  );
  page.renameOpen('old/Untitled.ipynb', 'old/analysis.ipynb');
  page.renameFile('old', 'new');
  notebooks.open('old/Untitled.ipynb');
  expect(draft.state.place?.notebook).toBe('new/analysis.ipynb');
  expect(draft.attachments).toEqual([
    { ...cell, notebook: 'new/analysis.ipynb' },
    { type: 'file', path: 'older/sales.csv' },
    { type: 'file', path: 'new/sales.csv' },
    { type: 'variable', name: 'old' }
  ]);
});
