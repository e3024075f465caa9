#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of one training run, from `moescope report --json` on standard input."""
import json
import sys

report = json.load(sys.stdin)
steps = report["steps"]["rows"]
total = report["steps"]["total"]
overhead = report["overhead"]
print(f"steps {total['steps']}, {sys.argv[1]} s in all, median step "
      f"{total['time']['p50_ns'] / 1e6:.1f} ms, cv {100 * total['time']['cv']:.1f}%")
if overhead["measured_pct"] is None:
    print("overhead n/a:", overhead["measured_pct_reason"])
else:
    print(f"overhead {overhead['measured_pct']:.2f}% of the step "
          f"(95%: {overhead['measured_low_pct']:.2f} to {overhead['measured_high_pct']:.2f}%, "
          f"{overhead['pairs']} pairs)")
print(f"drain thread {overhead['own_cpu_pct']:.2f}% of one core, "
      f"{overhead['records'] / max(1, total['steps']):.0f} records a step")
