import { nullTranslator } from '@jupyterlab/translation';
import { Tools } from '../../src/chat/tools';
import { Server, json } from '../server';

describe('Tools', () => {
  const server = new Server();
  const tools = new Tools(server.client, nullTranslator.load(''));
  const count = { name: 'count_words', former_names: ['words'], words: [], icon: 'look' };

  it('are read once for all names that are looked up at a time', async () => {
    server.routes['GET tools'] = () => json([]);
    for (const name of ['count_words', 'words', 'other', 'count_words', 'web_search']) {
      expect(tools.find(name)?.name).toBe(name === 'web_search' ? name : undefined);
    }
    await tools.read();
    expect(server.to('GET tools')).toHaveLength(1);
  });

  it('have no words on a server that was not restarted', async () => {
    server.routes['GET tools'] = () => json([{ name: 'run_cells', effect: 'run' }]);
    await tools.read();
    expect(tools.find('run_cells')?.words).toEqual([]);
    expect(server.to('GET tools')).toHaveLength(2);
  });

  it('are found by former names, and not read again for a name that was not there', async () => {
    server.routes['GET tools'] = () => json([count]);
    await tools.read();
    expect(tools.find('words')).toEqual(count);
    expect([tools.find('other'), tools.find('constructor')]).toEqual([undefined, undefined]);
    await tools.read();
    tools.find('constructor');
    expect(server.to('GET tools')).toHaveLength(4);
  });
});
