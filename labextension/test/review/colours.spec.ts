import { highlight } from '../../src/review/colours';

/** Highlights the first `length` characters and drops the rest, as JupyterLab 4.4 does. */
function upTo(length: number, prefix = ''): Parameters<typeof highlight>[2] {
  return {
    highlight: (text, _, host) => {
      const token = document.createElement('span');
      token.className = 'tok-keyword';
      token.textContent = prefix + text.slice(0, length);
      host.append(token);
      return Promise.resolve();
    }
  };
}

describe('highlight', () => {
  it('shows what follows the last token, too', async () => {
    const painted = await highlight('def f():', null, upTo(7));
    expect(painted.textContent).toBe('def f():');
    expect(painted.querySelector('span')?.textContent).toBe('def f()');
  });

  it('shows the text without colours where the coloured one is another', async () => {
    const painted = await highlight('x = 1', null, upTo(5, 'y'));
    expect(painted.textContent).toBe('x = 1');
  });
});
