# SPDX-License-Identifier: Apache-2.0
"""hta_kernels.py FOLDER: the kernels of the traces in a folder with Holistic Trace Analysis.

Queries its event table for number and time, then its own breakdown by kernel, which is what people
call it for.
"""
import logging
import os
import sys


def main():
    logging.disable(logging.WARNING)
    # Otherwise it rounds every time to microseconds.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
    names = analysis.t.symbol_table.sym_table
    number = total = 0
    for rank in analysis.t.get_ranks():
        events = analysis.t.get_trace(rank)
        kernels = events[events["cat"].map(lambda c: names[c] == "kernel")]
        number += len(kernels)
        total += round(float(kernels["dur"].sum()) * 1000)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    print("kernels", number, "kernel_ns", total, flush=True)
    # Its caches take as long to free as to build, and nobody waits for that.
    os._exit(0)


if __name__ == "__main__":
    main()
