import { nullTranslator } from '@jupyterlab/translation';
import type { IModels } from '../../src/api/protocol';
import type { Assistant } from '../../src/chat/assistant';
import { Models } from '../../src/chat/models';
import type { ConversationUsage } from '../../src/chat/usage';
import { actions } from '../../src/panel/slashActions';
import { json, Server } from '../server';

const trans = nullTranslator.load('jupyter_agent');
const OFFERED: IModels = {
  default: 'lab:main',
  fallback: 'lab:spare',
  providers: [
    { name: 'anthropic', models: ['claude-a', 'claude-b'], credentials: true },
    { name: 'ollama', models: [], credentials: true }
  ],
  windows: {},
  images: {},
  documents: {}
};

describe('/model', () => {
  let server: Server;
  let models: Models;
  let refusals: string[];

  beforeEach(() => {
    server = new Server();
    server.routes['GET models'] = () => json(OFFERED);
    models = new Models(server.client);
    refusals = [];
  });

  function choose(value: string): void {
    const assistant = {
      models,
      choose: (choice: object) => models.choose(choice),
      draft: { refuse: (why: string) => refusals.push(why) }
    } as unknown as Assistant;
    const all = actions(assistant, {} as ConversationUsage, trans);
    all.find(({ name }) => name === 'model')!.run!(value);
  }

  it.each(['anthropic:claude-b', 'ollama:qwen3', 'ollama:qwen3:8b', 'lab:spare', 'lab:main'])(
    'takes a model that is offered, or may be: %s',
    async model => {
      await models.read();
      choose(model);
      expect(models.answering).toBe(model);
      expect(refusals).toEqual([]);
    }
  );

  it.each(['zzz', 'claude-b', 'anthropic:zzz', 'anthropic:', 'ollama:', 'other:qwen3', ':qwen3'])(
    'refuses another one with the names that are possible: %s',
    async model => {
      await models.read();
      choose('anthropic:claude-a');
      choose(model);
      expect(models.answering).toBe('anthropic:claude-a');
      expect(refusals).toEqual([
        `“${model}” is not a model here. Models are: anthropic:claude-a, anthropic:claude-b, ollama:…. “Other model…” takes more.`
      ]);
    }
  );

  it('takes every name while the models are not known', () => {
    choose('zzz');
    expect(models.answering).toBe('zzz');
    expect(refusals).toEqual([]);
  });
});
