// Elements in one expression.
export type Child = Node | string | null;
type Attributes = { [name: string]: string | boolean };

function fill<T extends Element>(element: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child): child is Node | string => child !== null));
  return element;
}

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {},
  ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function button(label: string, action: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", action);
  return made;
}

// New content in place of the old. What has the focus keeps it, if it is there again (data-key).
export function repaint(container: Element, ...children: Child[]): void {
  const key = container.contains(document.activeElement)
    ? document.activeElement?.getAttribute("data-key") : null;
  container.replaceChildren(...children.filter((child): child is Node | string => child !== null));
  if (key) container.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

let sequence = 0;

export function uniqueId(prefix: string): string {
  return `${prefix}-${++sequence}`;
}
