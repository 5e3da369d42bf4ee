import type { TranslationBundle } from '@jupyterlab/translation';

/** Tools run by the model's service. */
export const OF_SERVICES = [
  'web_search',
  'web_fetch',
  'code_execution',
  'bash_code_execution',
  'text_editor_code_execution'
];

/** Phrases for a tool run by the model's service: to do, doing, done; null for other tools. */
export function servicePhrase(
  tool: string,
  { query, url }: { query?: string; url?: string },
  trans: TranslationBundle
): [todo: string, doing: string, done: string] | null {
  if (!OF_SERVICES.includes(tool)) {
    return null;
  }
  if (tool.endsWith('code_execution')) {
    return [
      trans.__('Run code at the model’s service'),
      trans.__('Running code at the model’s service'),
      trans.__('Ran code at the model’s service')
    ];
  }
  if (url) {
    const page = url.replace(/^https?:\/\//, '');
    return [trans.__('Read %1', page), trans.__('Reading %1', page), trans.__('Read %1', page)];
  }
  return query
    ? [
        trans.__('Search the web for “%1”', query),
        trans.__('Searching the web for “%1”', query),
        trans.__('Searched the web for “%1”', query)
      ]
    : [trans.__('Search the web'), trans.__('Searching the web'), trans.__('Searched the web')];
}
