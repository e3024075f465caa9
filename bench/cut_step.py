# SPDX-License-Identifier: Apache-2.0
"""cut_step.py TRACE.pt.trace.json.gz STEP > data/h200-step.json: one step of a PyTorch trace,
unchanged.

This made the seed of bench/make_kineto.c: the events that begin in the step, and what its calls
started on the device; metadata stays. Not a byte inside an event is changed.
"""
import gzip
import json
import re
import sys

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")


def main():
    path, step = sys.argv[1:]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    head, _, rest = text.partition('"traceEvents": [\n')
    body, _, tail = rest.rpartition("\n  ],\n")
    texts = re.split(r",\n(?=  \{\n)", body)
    events = [json.loads(t) for t in texts]
    steps = sorted((e["ts"], e["name"]) for e in events
                   if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#"))
    number = [name for _, name in steps].index(f"ProfilerStep#{step}")
    begin, end = steps[number][0], steps[number + 1][0]

    def inside(event):
        return begin <= event["ts"] < end and event["ts"] + event.get("dur", 0) <= end

    launched = {e["args"]["correlation"] for e in events
                if e.get("cat") in ("cuda_runtime", "cuda_driver") and inside(e)}

    def wanted(event):
        if event["ph"] == "M" or event.get("cat") == "Trace" or event.get("s") == "g":
            return True
        if event.get("cat") == "ac2g":
            return event["id"] in launched
        if event.get("cat") in ON_DEVICE and "correlation" in event["args"]:
            return event["args"]["correlation"] in launched
        return inside(event)

    kept = [t for t, e in zip(texts, events) if wanted(e)]
    last = max(e["ts"] + e["dur"] for e in events if e.get("cat") in ON_DEVICE and wanted(e))
    first = min(e["ts"] for e in events if e.get("cat") in ON_DEVICE and wanted(e))
    if last - first > end - begin:
        sys.exit("cut_step.py: the device works on the step for longer than the step is")
    sys.stdout.write(head + '"traceEvents": [\n' + ",\n".join(kept) + "\n  ],\n" + tail)
    print(f"period_ns {round((end - begin) * 1000)}", file=sys.stderr)


if __name__ == "__main__":
    main()
