# SPDX-License-Identifier: Apache-2.0
"""The speed and memory of two builds, side by side, for same.py --bench.

Each round runs every job with both, alternating which goes first. A job's figure is the median over
the rounds of new / old, with a 95% interval by order statistics; it is a regression if the whole
interval is above LIMIT. It compares CPU time, not wall time, so a busy machine costs precision, not
truth.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "gpu"))
from harness import interval  # noqa: E402  pylint: disable=wrong-import-position

LIMIT = 1.03
KERNELS = 400000
TRACE_BYTES = 120_000_000
# Forks by itself, so that its child does not inherit this interpreter's peak memory.
TIMER = "/usr/bin/time"
DATA = ROOT / "bench" / "data"

# Words of each job; the first is a program of the build. {out}: an empty place.
JOBS = {
    "kernels": ["moescope", "kernels", "run.mscope"],
    "kernels --by range": ["moescope", "kernels", "run.mscope", "--by", "range"],
    "report": ["moescope", "report", "run.mscope"],
    "report --json": ["moescope", "report", "run.mscope", "--json"],
    "report of a trace": ["moescope", "report", "trace.json"],
    "ops": ["moescope", "ops", "run.mscope"],
    "import": ["moescope", "import", "trace.json", "-o", "{out}.mscope"],
    "sql sum": ["moescope", "sql", "run.mscope", "--csv",
                "select short_name, sum(duration_ns) from kernels group by 1"],
    "sql rows": ["moescope", "sql", "run.mscope", "--csv", "select * from kernels"],
    "export chrome-json": ["moescope", "export", "run.mscope", "--to", "chrome-json", "-o", "{out}"],
    "export perfetto": ["moescope", "export", "run.mscope", "--to", "perfetto", "-o", "{out}"],
    "encode a run": ["bench/bench-make-run", str(DATA), "{out}.mscope", str(KERNELS)],
    "codec": ["bench/bench-codec", str(DATA), "{out}", str(KERNELS)],
}


def once(build, words, work, env):
    """(CPU seconds, KiB or None) of one run of a job."""
    with tempfile.TemporaryDirectory(dir=work) as scratch, open(os.devnull, "wb") as nowhere:
        out = os.path.join(scratch, "out")
        if words[0].endswith("codec"):
            os.mkdir(out)
        command = [str(build / words[0]), *(w.replace("{out}", out) for w in words[1:])]
        peak = os.path.join(scratch, "peak")
        timed = [TIMER, "-f", "%M", "-o", peak] if os.path.exists(TIMER) else []
        process = subprocess.Popen(timed + command, cwd=work, env=env, stdin=subprocess.DEVNULL,
                                   stdout=nowhere, stderr=subprocess.PIPE)
        said = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            raise SystemExit(f"same.py: {' '.join(command)} ended with {process.returncode}: {said}")
        memory = int(pathlib.Path(peak).read_text(encoding="utf-8").split()[-1]) if timed else None
        return usage.ru_utime + usage.ru_stime, memory


def row(what, unit, pairs):
    """One line, and whether it is a regression."""
    ratios = [new / old for old, new in pairs if old > 0]
    ratio, low, high, _confidence = interval(ratios)
    worse = low > LIMIT
    old, new = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    print(f"{what:<20} {unit:<4} {old:>10.3f} {new:>10.3f} {ratio:>8.3f}  "
          f"{low:.3f} .. {high:.3f}{'  WORSE' if worse else ''}", flush=True)
    return worse


def inputs(build, work, env):
    """The same files for both, made by one of them."""
    makers = (("run.mscope", ["bench-make-run", DATA, "run.mscope", KERNELS]),
              ("trace.json", ["bench-make-kineto", DATA, "trace.json", TRACE_BYTES]))
    for name, words in makers:
        if not (work / name).exists():
            subprocess.run([str(build / "bench" / words[0]), *map(str, words[1:])], cwd=work, env=env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def bench(builds, work, rounds, env, only=None):
    """1 if a job has regressed."""
    if rounds < 6:
        raise SystemExit("same.py: an interval of 95% needs 6 rounds or more")
    for build in builds:
        if not (build / "bench" / "bench-make-run").exists():
            raise SystemExit(f"same.py: {build} has no bench; build all of it")
    for name in ("home", "tmp"):
        (work / name).mkdir(parents=True, exist_ok=True)
    inputs(builds[0], work, env)
    jobs = {name: words for name, words in JOBS.items() if not only or re.search(only, name)}
    found = {name: [] for name in jobs}
    for number in range(-1, rounds):  # the first warms the caches
        for name, words in jobs.items():
            order = (0, 1) if number % 2 else (1, 0)
            measured = {side: once(builds[side], words, work, env) for side in order}
            if number >= 0:
                found[name].append((measured[0], measured[1]))
    print(f"{'job':<20} {'':<4} {'old':>10} {'new':>10} {'ratio':>8}  95% interval")
    worse = 0
    for name, pairs in found.items():
        worse += row(name, "s", [(old[0], new[0]) for old, new in pairs])
        if pairs[0][0][1] is None:
            print(f"{'':<20} MiB  n/a: {TIMER} is not there")
        else:
            worse += row("", "MiB", [(old[1] / 1024, new[1] / 1024) for old, new in pairs])
    print(f"{len(jobs)} jobs, {rounds} rounds, {worse} worse than {100 * LIMIT - 100:.0f}%")
    return 1 if worse else 0
