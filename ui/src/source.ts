// Where documents come from: a server, or the page itself.
import { Options } from "./address";
import { Fields, fields, Json, rowsOf, text } from "./json";

export interface Watcher {
  changed(): void;
  gone(): void;
  silent(): void; // the server does not answer
  back(): void;
}

export interface Source {
  live: boolean; // it answers questions with parameters, and runs grow
  runs(): Promise<Fields[]>;
  // The same object as before, if nothing has changed.
  view(run: string, view: string, options: Options): Promise<Fields>;
  // A run against another, which is the baseline.
  compare(base: string, run: string, options: Options): Promise<Fields>;
  // Answers that change with every question: none is held.
  ask(run: string, path: string, options: Options): Promise<Fields>;
  // Rows of a view that it cannot give.
  missing(view: string): number;
  // Returns what ends it.
  follow(run: string, watcher: Watcher): () => void;
}

export class Trouble extends Error {
  constructor(sentence: string, readonly kind: "missing" | "refused" | "busy" | "silent") {
    super(sentence.charAt(0).toUpperCase() + sentence.slice(1));
  }
}

const SILENT = "The server does not answer. This page asks again until it does.";
const RETRY_MS = 2000;
const KEPT = 16; // documents that are held to compare with

async function errorOf(reply: Response): Promise<Trouble> {
  const kind = reply.status === 404 ? "missing" : reply.status === 503 ? "busy" : "refused";
  try {
    return new Trouble(text(fields((await reply.json()) as Json)["error"]) || reply.statusText, kind);
  } catch {
    return new Trouble(`The server says: ${reply.status} ${reply.statusText}.`, kind);
  }
}

function addressOf(run: string, path: string, options: Options): string {
  const query = new URLSearchParams(options).toString();
  return `api/runs/${encodeURIComponent(run)}/${path}${query ? `?${query}` : ""}`;
}

export class HttpSource implements Source {
  live = true;
  private kept = new Map<string, { words: string; document: Fields }>();

  private async words(address: string): Promise<string> {
    try {
      const reply = await fetch(address);
      if (!reply.ok) throw await errorOf(reply);
      return await reply.text();
    } catch (error) {
      if (error instanceof Trouble) throw error;
      throw new Trouble(SILENT, "silent");
    }
  }

  private async get(address: string): Promise<Fields> {
    const words = await this.words(address);
    const before = this.kept.get(address);
    if (before?.words === words) return before.document;
    const document = fields(JSON.parse(words) as Json);
    this.kept.delete(address);
    this.kept.set(address, { words, document });
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value as string);
    return document;
  }

  async runs(): Promise<Fields[]> {
    return rowsOf((await this.get("api/runs"))["rows"]);
  }

  view(run: string, view: string, options: Options): Promise<Fields> {
    return this.get(addressOf(run, view, options));
  }

  async ask(run: string, path: string, options: Options): Promise<Fields> {
    return fields(JSON.parse(await this.words(addressOf(run, path, options))) as Json);
  }

  compare(base: string, run: string, options: Options): Promise<Fields> {
    return this.get(`api/compare?${new URLSearchParams({ a: base, b: run, ...options }).toString()}`);
  }

  missing(): number {
    return 0;
  }

  // A page that nobody sees holds no connection: a browser has only six for a server.
  follow(run: string, watcher: Watcher): () => void {
    let stream: EventSource | null = null;
    let timer = 0;
    let ended = false;
    const close = (): void => {
      stream?.close();
      stream = null;
      clearTimeout(timer);
    };
    const open = (): void => {
      close();
      if (ended || document.hidden) return;
      const opened = new EventSource(`api/runs/${encodeURIComponent(run)}/events`);
      stream = opened;
      opened.addEventListener("open", () => watcher.back());
      opened.addEventListener("changed", () => watcher.changed());
      opened.addEventListener("gone", () => {
        ended = true;
        close();
        watcher.gone();
      });
      opened.addEventListener("error", () => {
        if (stream !== opened) return;
        if (opened.readyState !== EventSource.CLOSED) watcher.silent();
        else void refused();
      });
    };
    // The browser does not say with which status.
    const refused = async (): Promise<void> => {
      close();
      try {
        await this.view(run, CHEAPEST, { limit: "1" });
      } catch (error) {
        if (error instanceof Trouble && error.kind === "missing") {
          ended = true;
          watcher.gone();
          return;
        }
      }
      watcher.silent();
      if (!ended) timer = window.setTimeout(open, RETRY_MS);
    };
    document.addEventListener("visibilitychange", open);
    open();
    return () => {
      ended = true;
      close();
      document.removeEventListener("visibilitychange", open);
    };
  }
}

// The view that takes the least to make, for what all documents have: the run and what it lost.
export const CHEAPEST = "counters";

// {"run": NAME, "views": {"report": {…}, "kernels": {…}, …}, "left_out": {"kernels": 20}}: views as the server
// gives them, and how many rows of them are not in the file.
export class EmbeddedSource implements Source {
  live = false;
  private name: string;
  private views: Fields;
  private leftOut: Fields;

  constructor(data: Fields) {
    this.name = text(data["run"]);
    this.views = fields(data["views"]);
    this.leftOut = fields(data["left_out"] ?? {});
  }

  missing(view: string): number {
    return Number(this.leftOut[view] ?? 0);
  }

  async runs(): Promise<Fields[]> {
    return [{ name: this.name }];
  }

  async view(run: string, view: string): Promise<Fields> {
    if (run !== this.name) throw new Trouble(`This file is about '${this.name}', not '${run}'.`, "missing");
    if (!(view in this.views)) throw new Trouble(`This file does not hold the view '${view}'.`, "missing");
    return fields(this.views[view]);
  }

  async compare(): Promise<Fields> {
    throw new Trouble(`This file is about '${this.name}' alone.`, "refused");
  }

  // Only a server answers questions.
  ask(run: string, path: string): Promise<Fields> {
    return this.view(run, path);
  }

  follow(): () => void {
    return () => undefined;
  }
}

export function findSource(): Source {
  const data = document.getElementById("data")?.textContent;
  return data ? new EmbeddedSource(fields(JSON.parse(data) as Json)) : new HttpSource();
}
