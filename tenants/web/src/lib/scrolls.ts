// A part that shows less than it has can be scrolled by keyboard: it takes the focus while that is so.

/** For `{@attach scrolls}`. */
export function scrolls(node: HTMLElement): () => void {
  const look = (): void => {
    if (node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight) node.tabIndex = 0;
    else node.removeAttribute('tabindex');
  };
  const watched = new ResizeObserver(look);
  for (const one of [node, ...node.children]) watched.observe(one);
  return () => watched.disconnect();
}
