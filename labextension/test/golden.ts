import { readdirSync, readFileSync } from 'fs';
import { basename, join } from 'path';
import type { AgentChunk } from '../src/api/protocol';

const FOLDER = join(__dirname, '../../tests/wire');

/** The streams that both languages agree on, by name. */
export function goldenStreams(): [string, AgentChunk[]][] {
  const files = readdirSync(FOLDER).filter(file => file.endsWith('.json'));
  return files.map(file => [basename(file, '.json'), goldenStream(basename(file, '.json'))]);
}

export function goldenStream(name: string): AgentChunk[] {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8')) as AgentChunk[];
}
