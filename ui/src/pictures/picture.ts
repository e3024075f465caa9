// A picture of a view: drawn from its document, drawn again when that has changed.
import { Options } from "../address";
import { Fields } from "../json";
import { Source } from "../source";

export interface Stage {
  source: Source;
  run: string;
  // Opens the details of a row, here or in the view that has it.
  openRow(view: string, key: string): void;
}

export interface ViewStage extends Stage {
  // Marks a row, and shows its details only where those of another are open.
  selectRow(key: string): void;
  // Looks at the same view in another way.
  adjust(changes: Options): void;
}

export interface Picture {
  element: HTMLElement;
  update(document: Fields): void;
  // The address has changed.
  restore?(options: Options): void;
  // It is no longer looked at.
  close?(): void;
}
