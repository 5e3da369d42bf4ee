import type { IRenderMime } from '@jupyterlab/rendermime';

/**
 * A sanitizer whose result loads nothing from elsewhere: a model's text could tell a stranger what it read by
 * the address of a picture. Pictures become links, which load when a person clicks.
 */
export function withoutRemoteContent(sanitizer: IRenderMime.ISanitizer): IRenderMime.ISanitizer {
  return {
    allowNamedProperties: sanitizer.allowNamedProperties,
    sanitize: (dirty, options) => {
      const { body } = new DOMParser().parseFromString(
        sanitizer.sanitize(dirty, options),
        'text/html'
      );
      for (const element of body.querySelectorAll('[src], [srcset], [poster]')) {
        const source = element.getAttribute('src') ?? '';
        if (element.tagName === 'IMG' && source.startsWith('data:')) {
          element.removeAttribute('srcset');
          continue;
        }
        const link = body.ownerDocument.createElement('a');
        link.href = source;
        link.textContent = element.getAttribute('alt') || source;
        element.replaceWith(link);
      }
      return body.innerHTML;
    }
  };
}
