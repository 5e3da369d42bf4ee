/**
 * Types of the server's answers from its OpenAPI description, `tests/wire/schemas/schemas.json`, into
 * `src/api/schemas.ts`. With `--check` it fails if they are not up to date, and writes nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import * as prettier from 'prettier';

const SCHEMAS = new URL('../../tests/wire/schemas/schemas.json', import.meta.url);
const TYPES = new URL('../src/api/schemas.ts', import.meta.url);

/** Without titles, and without the fields that answers may have beyond those described. */
function closed(schema) {
  if (Array.isArray(schema)) {
    return schema.map(closed);
  }
  if (!schema || typeof schema !== 'object') {
    return schema;
  }
  const isOpen = schema.additionalProperties !== undefined && !schema.properties;
  const stays = ([name, part]) =>
    !(name === 'additionalProperties' && !isOpen) &&
    !(name === 'title' && typeof part === 'string');
  const parts = Object.entries(schema).filter(stays);
  return Object.fromEntries(parts.map(([name, part]) => [name, closed(part)]));
}

const document = {
  openapi: '3.1.0',
  info: { title: 'jupyter_agent', version: '1' },
  paths: {},
  components: { schemas: closed(JSON.parse(readFileSync(SCHEMAS, 'utf8'))) }
};
const ast = await openapiTS(document, { defaultNonNullable: false });
const head =
  '/** Made by `dev/schemas.mjs` from the OpenAPI description of the server. Do not edit. */\n\n';
const types = astToString(ast)
  .replace(/^export (?:type|interface) (?:webhooks|operations|paths|\$defs)\b.*$/gm, '')
  .replace(/^ {4}(?:responses|parameters|requestBodies|headers|pathItems): never;$/gm, '');
const options = await prettier.resolveConfig(TYPES);
const made = await prettier.format(head + types, { ...options, parser: 'typescript' });
if (!process.argv.includes('--check')) {
  writeFileSync(TYPES, made);
} else if (readFileSync(TYPES, 'utf8') !== made) {
  console.error('src/api/schemas.ts is out of date: node dev/schemas.mjs');
  process.exit(1);
}
