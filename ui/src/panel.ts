// What stands beside the navigation.
import { Options } from "./address";
import { Fields } from "./json";

export interface Panel {
  element: HTMLElement;
  // Asks again, and paints what has changed. The document tells of the run and of what it lost.
  refresh(): Promise<Fields>;
  // The address has changed.
  restore(options: Options): void;
  // It is no longer looked at.
  close?(): void;
}
