// Light or dark: as the system is set, unless the switch says otherwise.
import { button } from "./dom";

const KEY = "moescope-theme";
const NAMES = ["system", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

// A browser may forbid to keep anything.
function chosen(): string {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system";
  }
}

let choice = chosen();

// The event by which a canvas learns that it has to be painted anew.
export const THEME_EVENT = "theme";

function apply(): void {
  const isDark = choice === "dark" || (choice === "system" && dark.matches);
  document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
  for (const canvas of document.querySelectorAll("canvas")) canvas.dispatchEvent(new Event(THEME_EVENT));
}

export function themeSwitch(): HTMLButtonElement {
  const made = button("", () => {
    choice = NAMES[(NAMES.indexOf(choice) + 1) % NAMES.length] ?? "system";
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // It holds until the page is closed.
    }
    name();
    apply();
  }, { class: "theme" });
  const name = (): void => {
    made.textContent = `Theme: ${choice}`;
  };
  name();
  return made;
}

export function startTheme(): void {
  dark.addEventListener("change", apply);
  apply();
}
