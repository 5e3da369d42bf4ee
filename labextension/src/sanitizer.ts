import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import type { ITranslator } from '@jupyterlab/translation';

/** What a person would fill in or press: in an untrusted text, always somebody else's. */
const CONTROLS =
  'form, fieldset, button, select, optgroup, option, datalist, textarea, input:not([type=checkbox]), label, menu, command';
const LOADED = '[src], [srcset], [poster], [background]';
/** Of CSS: a value that loads something, and properties that put a thing where it does not belong. */
const LOADING = /url|image|src|\\/i;
const PLACING = ['position', 'z-index', 'inset', 'top', 'right', 'bottom', 'left', 'cursor'];

/**
 * Renders what a model or an output says, with Lab's own renderers only: those of other extensions (a Vega chart
 * with the address of its numbers) load what they are told to. What only they show stands there as its text.
 */
export function untrusting(
  rendermime: IRenderMimeRegistry,
  translator: ITranslator | null
): IRenderMimeRegistry {
  const { latexTypesetter, linkHandler, markdownParser, sanitizer } = rendermime;
  return new RenderMimeRegistry({
    initialFactories: standardRendererFactories,
    latexTypesetter: latexTypesetter ?? undefined,
    linkHandler: linkHandler ?? undefined,
    markdownParser: markdownParser ?? undefined,
    sanitizer: withoutRemoteContent(sanitizer),
    translator: translator ?? undefined
  });
}

/**
 * A sanitizer whose result loads nothing from elsewhere and acts on nothing here: a model's text could tell a
 * stranger what it read by the address of a picture, and Lab would run a command for a press of its button.
 * Pictures become links, which load when a person clicks; controls leave their words.
 */
export function withoutRemoteContent(sanitizer: IRenderMime.ISanitizer): IRenderMime.ISanitizer {
  return {
    allowNamedProperties: sanitizer.allowNamedProperties,
    sanitize: (dirty, options) => {
      const { body } = new DOMParser().parseFromString(
        sanitizer.sanitize(dirty, options),
        'text/html'
      );
      body
        .querySelectorAll(CONTROLS)
        .forEach(control => control.replaceWith(...control.childNodes));
      body.querySelectorAll(LOADED).forEach(unload);
      body.querySelectorAll('*').forEach(quiet);
      return body.innerHTML;
    }
  };
}

/** A link in the place of what would load by itself. */
function unload(element: Element): void {
  const source = element.getAttribute('src') ?? '';
  element.removeAttribute('background');
  if (element.tagName === 'IMG' && source.startsWith('data:image/')) {
    element.removeAttribute('srcset');
  } else if (element.matches(LOADED)) {
    const link = element.ownerDocument.createElement('a');
    link.href = source;
    link.textContent = element.getAttribute('alt') || source;
    element.replaceWith(source && isWeb(link) ? link : link.textContent);
  }
}

/** No command of Lab, no shortcut key, no address but of the web, no style that loads or covers something. */
function quiet(element: Element): void {
  for (const { name } of [...element.attributes]) {
    if (name.startsWith('data-commandlinker') || name === 'accesskey' || name === 'usemap') {
      element.removeAttribute(name);
    }
  }
  if (element instanceof HTMLAnchorElement && element.hasAttribute('href') && !isWeb(element)) {
    element.removeAttribute('href');
  }
  if (element instanceof HTMLElement && element.hasAttribute('style')) {
    const { style } = element;
    for (const name of Array.from(style, (_, index) => style.item(index))) {
      if (LOADING.test(style.getPropertyValue(name)) || PLACING.includes(name)) {
        style.removeProperty(name);
      }
    }
  }
}

function isWeb(link: HTMLAnchorElement): boolean {
  return ['http:', 'https:', 'mailto:'].includes(link.protocol);
}
