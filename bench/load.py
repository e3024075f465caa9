#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""load.py BUILD: what the load client costs and how punctual it is, against the mock server.

A thousand concurrent streams of ten pieces per second each, sent when others end and by a Poisson
clock. Server and client run before other processes if allowed, and share the machine's cores.
"""

import os
import sys
import tempfile

os.environ["MOESCOPE_BUILD"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lab"))
from mock import began_ns, client, mock, rows  # noqa: E402


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def means(requests):
    """From (start, times of pieces): mean TTFT, TPOT and ITL in ms, and pieces per second."""
    gaps = sum(times[-1] - times[0] for _, times in requests)
    counts = sum(len(times) - 1 for _, times in requests)
    seconds = (max(times[-1] for _, times in requests) - min(s for s, _ in requests)) * 1e-9
    return {"TTFT": sum(times[0] - s for s, times in requests) / len(requests) / 1e6,
            "TPOT": sum((t[-1] - t[0]) / (len(t) - 1) for _, t in requests) / len(requests) / 1e6,
            "ITL": gaps / counts / 1e6,
            "pieces a second": (counts + len(requests)) / seconds}


def figures(name, run, truth):
    told = {int(row["id"].rsplit("-", 1)[1], 16): row for row in truth}
    tokens = sum(len(r["pieces_ns"]) for r in run.requests)
    behind = [a - b for i, r in enumerate(run.requests)
              for a, (b, _) in zip(r["pieces_ns"], told[i]["pieces"])]
    seconds = run.cost["duration_s"]
    print(f"{name}: {run.ends()}, {tokens} pieces in {seconds:.1f} s, {tokens / seconds:.0f} a second")
    changes = sorted([(r["sent_ns"], 1) for r in run.requests] +
                     [(r["end_ns"], -1) for r in run.requests])
    under_way = most = 0
    for _, change in changes:
        under_way += change
        most = max(most, under_way)
    share = run.cost["cpu_s"] / seconds
    print(f"  at most {most} streams at once; CPU {run.cost['cpu_s']:.2f} s, {share * 100:.1f}% of a "
          f"core, {share * 100 * 1e4 * seconds / tokens:.1f}% at 10,000 pieces a second")
    print(f"  pieces noted after the server's write: median {percentile(behind, 0.5) / 1e3:.0f} us, "
          f"p99 {percentile(behind, 0.99) / 1e3:.0f} us")
    ours = means([(r["sent_ns"], r["pieces_ns"]) for r in run.requests])
    theirs = means([(began_ns(row), [at for at, _ in row["pieces"]]) for row in truth])
    print("  against the server's clock: " + ", ".join(
        f"{key} {ours[key]:.3f} ({(ours[key] / theirs[key] - 1) * 100:+.3f}%)" for key in ours))
    waited = [row["received_ns"] - began_ns(row) for row in truth]
    sending = [began_ns(told[i]) - r["sent_ns"] for i, r in enumerate(run.requests)]
    print(f"  from the client's clock to the server's socket: mean {sum(sending) / len(sending) / 1e3:.0f} "
          f"us; there until the server read it: mean {sum(waited) / len(waited) / 1e3:.0f} us, p99 "
          f"{percentile(waited, 0.99) / 1e3:.0f} us")
    late = [r["sent_ns"] - r["due_ns"] for r in run.requests if r["due_ns"] is not None]
    if late:
        print(f"  sent after it was due: median {percentile(late, 0.5) / 1e3:.0f} us, p99 "
              f"{percentile(late, 0.99) / 1e3:.0f} us, max {max(late) / 1e3:.0f} us")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, settings in (
                ("1,000 at once", {"requests": 2000, "concurrency": 1000, "max_tokens": 100}),
                ("Poisson, 20 a second", {"requests": 400, "arrival": "poisson",
                                          "request_rate": 20, "max_tokens": 50}),
                ("Poisson, 200 a second", {"requests": 4000, "arrival": "poisson",
                                           "request_rate": 200, "max_tokens": 50})):
            with mock(ttft_ms=100, gap_ms=100, jitter=0.3, seed=1) as url:
                run = client(url, **settings)
            figures(name, run, rows("truth.jsonl"))


if __name__ == "__main__":
    main()
