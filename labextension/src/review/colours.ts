import type { IEditorLanguage, IEditorLanguageRegistry } from '@jupyterlab/codemirror';

/** The text in a highlighted `code` element, in full: JupyterLab 4.4 drops the text after the last token. */
export async function highlight(
  text: string,
  language: IEditorLanguage | null,
  languages: Pick<IEditorLanguageRegistry, 'highlight'>
): Promise<HTMLElement> {
  const painted = document.createElement('code');
  await languages.highlight(text, language, painted);
  const shown = painted.textContent ?? '';
  if (text.startsWith(shown)) {
    painted.append(text.slice(shown.length));
  } else {
    painted.textContent = text;
  }
  return painted;
}
