import { Listing } from '../../src/chat/listing';
import { Server, json } from '../server';

test('letters typed while a search is under way are searched once, and the last search is shown', async () => {
  const server = new Server();
  const answers: ((response: Response) => void)[] = [];
  server.routes['GET conversations'] = () =>
    new Promise<Response>(resolve => answers.push(resolve));
  const answer = async (id: string): Promise<void> => {
    while (!answers.length) {
      await new Promise(resolve => setTimeout(resolve));
    }
    answers.shift()?.(json({ conversations: [{ id }], next_page: null }));
  };
  const listing = new Listing(server.client);
  const read = ['m', 'me', 'mea', 'mean'].map(query => listing.read({ query }));
  await answer('of m');
  await answer('of mean');
  await Promise.all(read);
  expect(server.to('GET conversations')).toHaveLength(2);
  expect(listing.state.conversations).toEqual([{ id: 'of mean' }]);
});

test('a search that fails ends, and the next one is asked', async () => {
  const server = new Server();
  const listing = new Listing(server.client);
  await expect(listing.read({ query: 'a' })).rejects.toThrow();
  server.routes['GET conversations'] = () => json({ conversations: [], next_page: null });
  await listing.read({ query: 'b' });
  expect(server.to('GET conversations')).toHaveLength(2);
});
