import { FocusReturn } from '../../src/components/focusReturn';

describe('The focus of a region', () => {
  let returned: number;
  let focusReturn: FocusReturn;
  const element = (id: string): HTMLElement => document.getElementById(id)!;
  const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

  beforeEach(() => {
    returned = 0;
    document.body.innerHTML =
      '<div id="region"><p id="part"><button id="one"></button></p><button id="two"></button></div>' +
      '<button id="outside"></button>';
    focusReturn = new FocusReturn(element('region'), () => returned++);
  });

  afterEach(() => focusReturn.dispose());

  it('returns when the element that has it disappears', async () => {
    element('one').focus();
    element('part').remove();
    await settled();
    expect(returned).toBe(1);
  });

  it('stays where it was moved', async () => {
    element('one').focus();
    element('part').remove();
    element('outside').focus();
    await settled();
    expect(returned).toBe(0);
  });

  it('does not return if the user left the element before, or something else disappears', async () => {
    element('one').focus();
    element('one').blur();
    await settled();
    element('part').remove();
    await settled();
    element('two').focus();
    element('region').append(document.createElement('p'));
    await settled();
    expect(returned).toBe(0);
  });
});
