/** Let the browser save a text as a Markdown file of that name. */
export function download(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/markdown' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${name.replace(/[\\/:*?"<>|]+/g, ' ').trim() || 'conversation'}.md`;
  link.click();
  URL.revokeObjectURL(url);
}
