/** The variables in the output of `inspect_variables`: one starts on each line that is not indented. */
export function variablesIn(text: string): { name: string; about: string }[] {
  return [...text.matchAll(/^(\w+): (.*)$/gm)].map(([, name, about]) => ({ name, about }));
}
