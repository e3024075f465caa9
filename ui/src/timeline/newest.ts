// One question at a time. Of those that come meanwhile only the newest is asked; none sooner than a moment after the
// one before.
export class Newest<Question, Answer> {
  private next: { question: Question } | null = null;
  private isBusy = false;
  private timer = 0;
  private isClosed = false;

  constructor(private waitMs: number, private ask: (question: Question) => Promise<Answer>,
    private told: (answer: Answer, question: Question) => void, private failed: (error: unknown) => void) {}

  put(question: Question, atOnce = false): void {
    this.next = { question };
    if (!this.isBusy && !this.timer) this.later(atOnce ? 0 : this.waitMs);
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private later(waitMs: number): void {
    this.timer = window.setTimeout(() => void this.run(), waitMs);
  }

  private async run(): Promise<void> {
    const next = this.next;
    this.timer = 0;
    this.next = null;
    if (!next || this.isClosed) return;
    this.isBusy = true;
    try {
      const answer = await this.ask(next.question);
      if (!this.isClosed) this.told(answer, next.question);
    } catch (error) {
      if (!this.isClosed) this.failed(error);
    } finally {
      this.isBusy = false;
      if (this.next && !this.isClosed) this.later(this.waitMs);
    }
  }
}
