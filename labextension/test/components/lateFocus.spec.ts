import { keepFocus } from '../../src/components/lateFocus';

describe('keepFocus', () => {
  it.each([
    ['stays', 'button', null],
    ['stays when another key is pressed', 'button', new KeyboardEvent('keydown', { key: 'Enter' })],
    ['goes where the mouse is pressed', 'cell', new Event('pointerdown')],
    ['goes with Tab', 'cell', new KeyboardEvent('keydown', { key: 'Tab' })]
  ])('%s', async (_, focused, event) => {
    document.body.innerHTML = '<button id="button"></button><div id="cell" tabindex="0"></div>';
    const [button, cell] = ['button', 'cell'].map(id => document.getElementById(id)!);
    button.focus();
    let arrive = (): void => undefined;
    const walked = keepFocus(button, new Promise<void>(resolve => (arrive = resolve)));
    if (event) {
      document.dispatchEvent(event);
    }
    cell.focus();
    await Promise.resolve();
    expect(document.activeElement!.id).toBe(focused);
    arrive();
    await walked;
    expect(document.activeElement!.id).toBe(focused);
    cell.focus();
    await Promise.resolve();
    expect(document.activeElement!.id).toBe('cell');
  });
});
