import type { IOutput } from '@jupyterlab/nbformat';
import type { IChange } from '../../src/api/protocol';
import { omissionOf, newPlots } from '../../src/chat/plots';

const plot = (data: string): IOutput => ({
  output_type: 'display_data',
  data: { 'image/png': data, 'text/plain': '<Figure>' },
  metadata: {}
});
const change = (cell_id: string, before: IOutput[], after: IOutput[]): IChange =>
  ({
    notebook: 'a.ipynb',
    cell_id,
    kind: 'outputs',
    before: { outputs: before },
    after: { outputs: after }
  }) as unknown as IChange;

describe('newPlots', () => {
  it('are those that cells did not show before, after all that happened to them', () => {
    const changes = [
      change('a1', [plot('AAAA')], [plot('AAAA'), plot('BB\nBB')]),
      change('b2', [], [plot('CCCC')]),
      change('b2', [plot('CCCC')], [{ output_type: 'stream', name: 'stdout', text: '7' }]),
      change('c3', [], [plot('DDDD')])
    ];
    expect(newPlots(changes).map(({ cell_id, url }) => [cell_id, url])).toEqual([
      ['a1', 'data:image/png;base64,BBBB'],
      ['c3', 'data:image/png;base64,DDDD']
    ]);
  });
});

describe('omissionOf', () => {
  const note = (text: string, metadata: IOutput['metadata'] = {}): IOutput => ({
    output_type: 'display_data',
    data: { 'text/plain': text },
    metadata
  });

  it('knows what the server left out, in its words of today and of before', () => {
    const own = { jupyter_agent: { left_out: { outputs: 2, plots: 1 } } };
    expect(omissionOf(note('[Plot: see the cell.]', own))).toEqual({ outputs: 2, plots: 1 });
    expect(omissionOf(note('[Outputs of 71,861 characters: see the cell.]'))).not.toBeNull();
    const large = '<Figure>\n<left out, too large for a cell: image/png of 452,772 characters>';
    expect(omissionOf(note(large))).toEqual({ outputs: 1, plots: 1 });
    expect(
      omissionOf({ ...note(large), data: { 'text/plain': large, 'text/html': '7' } })
    ).toBeNull();
    expect(omissionOf(note('see the cell'))).toBeNull();
    expect(omissionOf({ output_type: 'stream', name: 'stdout', text: '' })).toBeNull();
  });
});
