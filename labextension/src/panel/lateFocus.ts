/**
 * Waits for what takes a while to be there, and says whether it may have the focus: not if the user has pressed the
 * mouse meanwhile, as what they type from then on belongs where they pressed it.
 */
export async function mayFocusAfter(wait: Promise<unknown>): Promise<boolean> {
  let may = true;
  const leave = (): void => {
    may = false;
  };
  document.addEventListener('pointerdown', leave, true);
  try {
    await wait;
  } finally {
    document.removeEventListener('pointerdown', leave, true);
  }
  return may;
}
