import { existsSync, readFileSync, readdirSync } from 'fs';
import { dirname, join, relative, sep } from 'path';
import { preProcessFile } from 'typescript';

const SOURCES = join(__dirname, '../src');

/** What each folder, or top-level file, may import; `index` may import everything, and nothing imports `index`. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  storage: [],
  store: [],
  api: [],
  tokens: ['api'],
  bridge: ['api', 'tokens'],
  wording: ['api', 'bridge'],
  composer: ['storage', 'store', 'api', 'bridge'],
  chat: ['storage', 'store', 'api', 'tokens', 'bridge', 'composer'],
  review: ['storage', 'store', 'api', 'tokens', 'bridge', 'wording', 'chat'],
  prompt: ['storage', 'store', 'api', 'bridge', 'wording', 'composer', 'chat', 'review'],
  components: ['store', 'api', 'bridge', 'wording', 'composer', 'chat', 'review'],
  panel: [
    'storage',
    'store',
    'api',
    'wording',
    'composer',
    'chat',
    'review',
    'prompt',
    'components'
  ]
};

/** Each source file with the files it imports, statically or dynamically, including type imports. */
function importsOfAll(): Map<string, string[]> {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' });
  return new Map(
    files
      .filter(file => /\.tsx?$/.test(file))
      .map(file => {
        const { importedFiles } = preProcessFile(readFileSync(join(SOURCES, file), 'utf8'));
        const names = importedFiles.map(({ fileName }) => fileName);
        return [
          file,
          names.filter(name => name.startsWith('.')).map(name => resolveImport(file, name))
        ];
      })
  );
}

function resolveImport(importer: string, name: string): string {
  const path = join(SOURCES, dirname(importer), name);
  const file = [`${path}.ts`, `${path}.tsx`].find(existsSync);
  if (!file) {
    throw new Error(`${importer} imports ${name}, which is no file`);
  }
  return relative(SOURCES, file);
}

function roomOf(file: string): string {
  return file.split(sep)[0].replace(/\.tsx?$/, '');
}

describe('The imports of the panel', () => {
  const imports = importsOfAll();

  it('have no circle, of types neither', () => {
    const circles: string[] = [];
    const done = new Set<string>();
    const walk = (file: string, way: readonly string[]): void => {
      if (way.includes(file)) {
        circles.push([...way.slice(way.indexOf(file)), file].join(' -> '));
      } else if (!done.has(file)) {
        imports.get(file)?.forEach(imported => walk(imported, [...way, file]));
        done.add(file);
      }
    };
    [...imports.keys()].forEach(file => walk(file, []));
    expect(circles).toEqual([]);
  });

  it('lead only to the folders below', () => {
    const climbing = [...imports].flatMap(([file, imported]) => {
      const room = roomOf(file);
      const allowed = room === 'index' ? Object.keys(MAY_IMPORT) : [room, ...MAY_IMPORT[room]];
      return imported
        .filter(other => !allowed.includes(roomOf(other)))
        .map(other => `${file} -> ${other}`);
    });
    expect(climbing).toEqual([]);
  });

  it('have an order: each folder comes after those that it may import from', () => {
    const rooms = Object.keys(MAY_IMPORT);
    for (const [index, room] of rooms.entries()) {
      expect(rooms.slice(0, index)).toEqual(expect.arrayContaining([...MAY_IMPORT[room]]));
    }
    expect(new Set([...imports.keys()].map(roomOf))).toEqual(new Set([...rooms, 'index']));
  });
});
