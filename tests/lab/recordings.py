#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other benchmark clients recorded, as requests.jsonl, with the summary that they printed.

    recordings.py vllm|guidellm|aiperf FILE OUT [GOODPUT]

FILE is the result of `vllm bench serve --save-detailed`, GuideLLM's JSON, or AIPerf's artifact
folder. Writes OUT.requests.jsonl, each request as that client saw it, and OUT.expected.json, the
client's own figures under the names of serving.h. Feeding the one to our formulas must give the
other: tests/unit/test_lab_serving.c does.
"""

import datetime
import json
import pathlib
import sys

DISTRIBUTION = ("mean", "std", "min", "max", "p50", "p90", "p95", "p99")


def ns(seconds):
    return round(seconds * 1e9)


def ns_of_day(day):
    return (day - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) \
        // datetime.timedelta(microseconds=1) * 1000


def spread(first, last, n):
    """n times from first to last, for clients that keep only these two."""
    return [first + (last - first) * i // (n - 1) for i in range(n)] if n > 1 else [first]


def vllm(path):
    d = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    zero = min(d["start_times"])
    requests = []
    for i, start in enumerate(d["start_times"]):
        sent = ns(start - zero)
        ok = not d["errors"][i]
        pieces, at = [], d["ttfts"][i]
        for gap in ([0.0] + d["itls"][i]) if ok else []:
            at += gap
            pieces.append(sent + ns(at))
        requests.append({
            "sent_ns": sent, "end_ns": pieces[-1] if ok else None, "end": "ok" if ok else "failed",
            "server_counts": True, "prompt_tokens": d["input_lens"][i] if ok else None,
            "output_tokens": d["output_lens"][i] if ok else None, "pieces_ns": pieces})
    names = {"mean": "mean", "std": "std", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
    expected = {f"{metric}_ms": {ours: d[f"{theirs}_{metric}_ms"] for ours, theirs in names.items()}
                for metric in ("ttft", "tpot", "itl", "e2el")}
    expected |= {
        "duration_s": d["duration"], "requests_per_s": d["request_throughput"],
        "output_tokens_per_s": d["output_throughput"],
        "total_tokens_per_s": d["total_token_throughput"],
        "concurrency_max": d["max_concurrent_requests"],
        "prompt_tokens": d["total_input_tokens"], "output_tokens": d["total_output_tokens"],
        "requests_by_end": {"ok": d["completed"], "failed": d["failed"]}}
    if d.get("request_goodput") is not None:
        expected["goodput_per_s"] = d["request_goodput"]
    # The client starts its clock a little before the first request; it reports only its duration.
    end = max([0] + [r["end_ns"] or 0 for r in requests])
    head = {"start_ns": 0, "end_ns": ns(d["duration"])}
    if head["end_ns"] < end:
        raise ValueError("the duration ends before the last chunk")
    return head, requests, expected


def guidellm(path):
    b = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["benchmarks"][0]
    window, metrics = b["scheduler_metrics"], b["metrics"]
    everything = [(status, r) for status in ("successful", "incomplete", "errored")
                  for r in b["requests"][status]]
    zero = min([window["measure_start_time"]] + [r["request_start_time"] for _, r in everything])
    requests = []
    for status, r in everything:
        t = r["info"]["timings"]
        at = {key: ns(t[f"{key}_token_iteration"] - zero) for key in ("first", "last")
              if t[f"{key}_token_iteration"] is not None}
        sent, end = ns(r["request_start_time"] - zero), ns(r["request_end_time"] - zero)
        requests.append({
            "sent_ns": sent, "end_ns": end,
            "end": {"successful": "ok", "incomplete": "cancelled", "errored": "failed"}[status],
            "server_counts": True, "prompt_tokens": r["prompt_tokens"],
            "output_tokens": r["output_tokens"],
            "pieces_ns": spread(at["first"], at["last"], t["token_iterations"]) if at else []})

    def distribution(name, scale=1):
        d = metrics[name]["successful"]
        values = {"mean": d["mean"], "std": d["std_dev"], "min": d["min"], "max": d["max"]}
        values |= {p: d["percentiles"][p] for p in ("p50", "p90", "p95", "p99")}
        return {key: value * scale for key, value in values.items()} | {"n": d["count"]}

    expected = {
        "ttft_ms": distribution("time_to_first_token_ms"),
        "tpot_ms": distribution("time_per_output_token_ms"),
        "itl_ms": distribution("inter_token_latency_ms"),
        "e2el_ms": distribution("request_latency", 1000),
        "duration_s": window["measure_end_time"] - window["measure_start_time"],
        "requests_per_s": metrics["requests_per_second"]["total"]["mean"],
        "output_tokens_per_s": metrics["output_tokens_per_second"]["total"]["mean"],
        "total_tokens_per_s": metrics["tokens_per_second"]["total"]["mean"],
        "concurrency_mean": metrics["request_concurrency"]["total"]["mean"],
        "concurrency_max": metrics["request_concurrency"]["total"]["max"],
        "requests_by_end": {"ok": metrics["request_totals"]["successful"],
                            "failed": metrics["request_totals"]["errored"],
                            "cancelled": metrics["request_totals"]["incomplete"]}}
    if metrics["request_goodput"]:
        expected["goodput_per_s"] = metrics["request_goodput"]["total"]["mean"]
    head = {"start_ns": ns(window["measure_start_time"] - zero),
            "end_ns": ns(window["measure_end_time"] - zero)}
    return head, requests, expected


def aiperf(path):
    folder = pathlib.Path(path)
    lines = (folder / "profile_export.jsonl").read_text(encoding="utf-8").splitlines()
    summary = json.loads((folder / "profile_export_aiperf.json").read_text(encoding="utf-8"))
    records = [json.loads(line) for line in lines]
    zero = min(r["metadata"]["request_start_ns"] for r in records)
    requests = []
    for r in records:
        m = {key: value["value"] for key, value in r["metrics"].items()}
        sent = r["metadata"]["request_start_ns"] - zero
        ok = not r.get("error")
        pieces = []
        if ok:
            pieces = [sent + round(m["time_to_first_token"] * 1e6)]
            for gap in m.get("inter_chunk_latency", []):
                pieces.append(pieces[-1] + round(gap * 1e6))
        end = r["metadata"]["request_end_ns"] - zero
        requests.append({
            "sent_ns": sent, "end_ns": max([end] + pieces), "end": "ok" if ok else "failed",
            "server_counts": True, "prompt_tokens": m.get("input_sequence_length"),
            "output_tokens": m.get("output_sequence_length"), "pieces_ns": pieces})
    tags = {"ttft_ms": "time_to_first_token", "itl_ms": "inter_token_latency",
            "icl_ms": "inter_chunk_latency", "e2el_ms": "request_latency"}
    expected = {ours: {key: summary[tag]["avg" if key == "mean" else key] for key in DISTRIBUTION}
                for ours, tag in tags.items() if tag in summary}
    for ours, tag in {"requests_per_s": "request_throughput", "duration_s": "benchmark_duration",
                      "output_tokens_per_s": "output_token_throughput", "goodput_per_s": "goodput",
                      "total_tokens_per_s": "total_token_throughput",
                      "concurrency_mean": "effective_concurrency"}.items():
        if tag in summary:
            expected[ours] = summary[tag]["avg"]
    if "effective_concurrency" in summary:
        expected["concurrency_max"] = summary["effective_concurrency"]["max"]
    expected["requests_by_end"] = {
        "ok": round(summary["request_count"]["avg"]),
        "failed": round(summary.get("error_request_count", {"avg": 0})["avg"])}
    # Times of day without a zone: the client must have run in UTC.
    start, end = (datetime.datetime.fromisoformat(summary[f"{key}_time"] + "+00:00")
                  for key in ("start", "end"))
    shift = zero - ns_of_day(start)
    for r in requests:
        for key in ("sent_ns", "end_ns"):
            r[key] += shift
        r["pieces_ns"] = [at + shift for at in r["pieces_ns"]]
    return {"start_ns": 0, "end_ns": ns_of_day(end) - ns_of_day(start)}, requests, expected


READERS = {"vllm": vllm, "guidellm": guidellm, "aiperf": aiperf}


def convert(kind, path, out, goodput=None):
    head, requests, expected = READERS[kind](path)
    lines = [{"schema": "moescope/requests/1"} | head] + requests
    pathlib.Path(f"{out}.requests.jsonl").write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    pathlib.Path(f"{out}.expected.json").write_text(
        json.dumps({"dialect": kind, "goodput": goodput or "", "expected": expected}, indent=1) + "\n",
        encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in READERS:
        sys.exit(__doc__)
    convert(*sys.argv[1:])
