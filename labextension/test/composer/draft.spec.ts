import { Signal } from '@lumino/signaling';
import { RenamingPage } from '../renames';
import type { IPicture } from '../../src/api/protocol';
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

describe('An earlier message', () => {
  const cell = { type: 'cell', notebook: 'a.ipynb', cell_id: 'c0' } as const;
  const file = { type: 'file', path: 'sales.csv' } as const;
  const picture = (filename: string): IPicture => ({
    type: 'file',
    mediaType: 'image/png',
    url: 'data:image/png;base64,',
    filename
  });
  const earlier = {
    text: 'Second',
    place: { notebook: 'a.ipynb', attachments: [cell] },
    pictures: [picture('one.png')]
  };

  it('comes back as it was', () => {
    const { notebooks, draft } = createDraft();
    notebooks.open('b.ipynb');
    draft.prepend(earlier);
    expect(draft.state).toMatchObject({ ...earlier, attached: [] });
  });

  it('leaves what is written below it, with all that is attached', () => {
    const { notebooks, draft } = createDraft();
    const here = { ...cell, notebook: 'b.ipynb' };
    notebooks.place = { notebook: 'b.ipynb', attachments: [here] };
    draft.setText('A long third question');
    draft.attach(file);
    draft.addPictures([picture('two.png')]);
    draft.prepend(earlier);
    expect(draft.state).toMatchObject({
      text: 'Second\n\nA long third question',
      place: earlier.place,
      pictures: [picture('one.png'), picture('two.png')]
    });
    expect(draft.attachments).toEqual([cell, here, file]);
  });
});
