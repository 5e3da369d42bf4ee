import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import type { ITranslator } from '@jupyterlab/translation';
import { restyle } from './allowedStyles';
import { asideTypesetter } from './typesetter';

/** Form controls: in untrusted text they never belong to the user. */
const CONTROLS =
  'form, fieldset, button, select, optgroup, option, datalist, textarea, input:not([type=checkbox]), label, menu, command';
const LOADED = 'video, audio, picture, source, track, [src], [srcset], [poster], [background]';

/**
 * Renders text of models and outputs with Lab's own renderers only: those of other extensions load whatever the text
 * names (a Vega chart with the address of its data). Content for other renderers is shown as its text, as is a Mermaid
 * diagram, which loads its pictures while it is drawn.
 */
export function untrusting(
  rendermime: IRenderMimeRegistry,
  translator: ITranslator | null
): IRenderMimeRegistry {
  const { latexTypesetter, linkHandler, markdownParser, sanitizer } = rendermime;
  return new RenderMimeRegistry({
    initialFactories: standardRendererFactories,
    latexTypesetter: latexTypesetter ? asideTypesetter(latexTypesetter, disarm) : undefined,
    linkHandler: linkHandler ?? undefined,
    markdownParser: markdownParser ? withoutDiagrams(markdownParser) : undefined,
    sanitizer: withoutRemoteContent(sanitizer),
    translator: translator ?? undefined
  });
}

function withoutDiagrams(parser: IRenderMime.IMarkdownParser): IRenderMime.IMarkdownParser {
  return {
    render: source => parser.render(source.replace(/(`{3,}|~{3,})([^\S\r\n]*)mermaid/g, '$1$2text'))
  };
}

/**
 * A sanitizer whose result loads nothing from elsewhere and acts on nothing here: a model's text could tell a
 * stranger what it read by the address of a picture, and Lab would run a command for a press of its button.
 * Pictures become links, which load when a person clicks; controls leave their words.
 */
export function withoutRemoteContent(sanitizer: IRenderMime.ISanitizer): IRenderMime.ISanitizer {
  return {
    allowNamedProperties: sanitizer.allowNamedProperties,
    getAutolink: () => false, // Lab makes a link of `javascript://` too
    sanitize: (dirty, options) => {
      const { body } = new DOMParser().parseFromString(
        sanitizer.sanitize(dirty, options),
        'text/html'
      );
      disarm(body);
      return body.innerHTML;
    }
  };
}

/** The last step before content enters the page: makes sure that nothing below the root loads, acts or covers. */
function disarm(root: HTMLElement): void {
  root.querySelectorAll(CONTROLS).forEach(control => control.replaceWith(...control.childNodes));
  root.querySelectorAll(LOADED).forEach(unload);
  root.querySelectorAll('*').forEach(quiet);
}

/** Replace an element that would load by itself with a link. */
function unload(element: Element): void {
  const source = element.getAttribute('src') ?? '';
  element.removeAttribute('background');
  if (element.tagName === 'IMG' && source.startsWith('data:image/')) {
    element.removeAttribute('srcset');
  } else if (element.matches(LOADED)) {
    const link = element.ownerDocument.createElement('a');
    link.href = source;
    link.textContent = element.getAttribute('alt') || source;
    const words = link.textContent ? [link.textContent] : [...element.childNodes];
    element.replaceWith(...(source && isWeb(link) ? [link] : words));
  }
}

/** Remove Lab commands, shortcut keys, non-web addresses, and styles other than those for words. */
function quiet(element: Element): void {
  for (const { name } of [...element.attributes]) {
    if (name.startsWith('data-commandlinker') || name === 'accesskey' || name === 'usemap') {
      element.removeAttribute(name);
    }
  }
  if (element instanceof HTMLAnchorElement && element.hasAttribute('href') && !isWeb(element)) {
    element.removeAttribute('href');
  }
  restyle(element);
}

function isWeb(link: HTMLAnchorElement): boolean {
  return ['http:', 'https:', 'mailto:'].includes(link.protocol);
}
