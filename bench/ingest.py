# SPDX-License-Identifier: Apache-2.0
"""ingest.py BUILD WORK SIZE: the tables of bench/ingest.sh.

Compared programs take turns, so a machine that becomes slower does so for all. Every program
reports how many kernels it found and their total time; anything other than what the generator wrote
fails the benchmark. Times and memory are the system's own count for the process: memory is the peak
resident set, including mapped files, and never below the 25 MB of this program, which started it.
MB are 10^6 bytes.
"""
import argparse
import collections
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CORE = str(min(os.sched_getaffinity(0)))
KERNELS_A_GB = 10_000_000  # of the run that is exported and queried
GROUP_BY = ("SELECT name, count(*), sum(duration_ns) FROM kernels GROUP BY name "
            "ORDER BY 3 DESC LIMIT 10")

Truth = collections.namedtuple("Truth", "kernels ns bytes")
Run = collections.namedtuple("Run", "wall cpu peak")
failures = []


class Case:
    """A program in a comparison and its measurements."""

    def __init__(self, name, command, *, one_core=False, found=None, size=None, rounds=None):
        self.name = name + (", one core" if one_core else "")
        self.command = (["taskset", "-c", CORE] if one_core else []) + command
        self.found = found  # output -> (kernels, ns); None: not checked
        self.size = size  # bytes, if different from the table's
        self.rounds = rounds
        self.runs = []
        self.failed = None

    def once(self, truth):
        out_path = os.path.join(options.work, "stdout")
        with open(out_path, "wb") as out, open(out_path + ".err", "wb") as err:
            start = time.monotonic()
            process = subprocess.Popen(self.command, stdout=out, stderr=err,
                                       stdin=subprocess.DEVNULL, cwd=options.work)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            with open(out_path + ".err", encoding="utf-8", errors="replace") as err:
                last = (err.read().strip().splitlines() or ["no message"])[-1]
            self.failed = f"status {process.returncode}: {last[:100]}"
        elif self.found:
            with open(out_path, encoding="utf-8", errors="replace") as out:
                found = self.found(out.read())
            if found != (truth.kernels, truth.ns):
                self.failed = f"found {found}, written ({truth.kernels}, {truth.ns})"
        if self.failed:
            failures.append(f"{self.name}: {self.failed}")
        else:
            self.runs.append(Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024))

    def wall(self):
        return min(r.wall for r in self.runs)

    def cpu(self):
        return min(r.cpu for r in self.runs)


def said(text):
    """From the generators and the peers."""
    numbers = re.search(r"kernels (\d+) kernel_ns (\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def summed(text):
    """From moescope kernels --json."""
    total = json.loads(text)["total"]
    return total["count"], total["time_ns"]


def compare(cases, truth):
    """The cases in turn; then their table."""
    for turn in range(options.rounds):
        for case in cases:
            if not case.failed and turn < (case.rounds or options.rounds):
                case.once(truth)
    print("| what | wall s, best (median) | CPU s | MB/s | MB per CPU s | peak MB | of the file | n |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        if case.failed:
            print(f"| {case.name} | failed: {case.failed} | | | | | | |", flush=True)
            continue
        size = case.size or truth.bytes
        walls = [r.wall for r in case.runs]
        peak = max(r.peak for r in case.runs)
        print(f"| {case.name} | {min(walls):.3f} ({statistics.median(walls):.3f}) | "
              f"{case.cpu():.3f} | {size / min(walls) / 1e6:.0f} | "
              f"{size / case.cpu() / 1e6:.0f} | "
              f"{peak / 1e6:.0f} | {100 * peak / size:.1f}% | {len(walls)} |", flush=True)
    print()


def ratio(words, asked, case, other, *, of_bytes=(1, 1)):
    """How many times faster a case is than another, each by the bytes it read."""
    if case.runs and other.runs:
        scale = of_bytes[0] / of_bytes[1]
        print(f"- {words}: {other.wall() / case.wall() * scale:.2f}, by CPU time "
              f"{other.cpu() / case.cpu() * scale:.2f} (asked: {asked})")


def command_of(name, *arguments):
    return [os.path.join(options.build, name), *arguments]


def peer(name, *arguments):
    return ["python3", os.path.join(HERE, "peers", name), *arguments]


def make(command):
    """Runs a generator. (kernels, ns) and the bytes it wrote."""
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Truth(*said(out), int(re.search(r"bytes (\d+)", out)[1]))


def make_kineto(path, size):
    truth = make(command_of("bench/bench-make-kineto", os.path.join(HERE, "data"), path, str(size),
                            options.style))
    warm(path)
    return truth


def warm(path):
    """Into the page cache."""
    block = bytearray(8 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(block):
            pass


def in_work(name):
    return os.path.join(options.work, name)


def remove(*names):
    for name in names:
        path = in_work(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)


def kernels_of(path, **more):
    return Case("moescope", command_of("moescope", "kernels", path, "--json"), found=summed, **more)


def kineto():
    path = in_work("trace.json")
    truth = make_kineto(path, options.size)
    print(f"## PyTorch trace of {truth.bytes / 1e6:.0f} MB ({options.style}), {truth.kernels} kernels, "
          "from the page cache\n")
    one, every = kernels_of(path, one_core=True), kernels_of(path)
    cases = [one, every]
    simdjson = Case("simdjson on-demand", command_of("bench/peer-simdjson", path), one_core=True,
                    found=said)
    if os.path.exists(simdjson.command[-2]):
        cases.append(simdjson)
    else:
        print("simdjson is left out: tools/deps.sh bench, then meson setup --reconfigure.\n")
    load = Case("Python json", peer("json_load.py", path), found=said)
    if not options.quick:
        cases.append(load)
    if options.trace_processor:
        with open(in_work("query.sql"), "w", encoding="utf-8") as query:
            query.write("select 'kernels ' || count(*) || ' kernel_ns ' || sum(dur) as s from slice "
                        "where category = 'kernel';")
        cases.append(Case("Perfetto trace processor", [options.trace_processor, "-q",
                                                       in_work("query.sql"), path], found=said))
    compare(cases, truth)
    ratio("times simdjson's speed, one core", "≥ 0.9", one, simdjson)
    ratio("times Python json's speed, one core", "≥ 10", one, load)
    remove("trace.json", "query.sql")
    if options.quick:
        pass
    elif options.hta:
        holistic(one, truth)
    else:
        print("\nHolistic Trace Analysis is left out: bench/peers/env.sh could not install it.")
    print()


def holistic(one, truth):
    """Holistic Trace Analysis on a tenth of the size: a table in memory is many times the file."""
    folder = in_work("hta")
    os.mkdir(folder)
    path = os.path.join(folder, "rank0.json")
    small = make_kineto(path, options.size // 10)
    beside = kernels_of(path, one_core=True)
    subprocess.run(["gzip", "-k", path], check=True)
    os.rename(path, in_work("small.json"))
    beside.command[-2] = in_work("small.json")
    case = Case("Holistic Trace Analysis", [options.hta, os.path.join(HERE, "peers/hta_kernels.py"),
                                            folder], found=said)
    print(f"\nThe same with {small.bytes / 1e6:.0f} MB, for Holistic Trace Analysis (gzip, as it wants "
          "it; by bytes of JSON):\n")
    compare([beside, case], small)
    ratio("times the speed of Holistic Trace Analysis, one core, this size", "≥ 40", beside, case)
    ratio("the same, by bytes, with the large file", "≥ 40", one, case,
          of_bytes=(truth.bytes, small.bytes))
    remove("hta", "small.json")


def gzip():
    path = in_work("trace.json")
    truth = make_kineto(path, options.size)
    subprocess.run(["gzip", path], check=True)
    path += ".gz"
    warm(path)
    print(f"## The same as gzip, {os.path.getsize(path) / 1e6:.0f} MB; MB/s of JSON\n")
    inflate = Case("zlib, thrown away", command_of("bench/peer-inflate", path), one_core=True)
    isal = Case("ISA-L, thrown away", ["igzip", "-t", path], one_core=True)
    one, every = kernels_of(path, one_core=True), kernels_of(path)
    compare([one, every, inflate, isal], truth)
    ratio("times zlib's own speed, all cores", "≥ 0.9", every, inflate)
    ratio("times zlib's own speed, one core", "none", one, inflate)
    ratio("times ISA-L's own speed, all cores", "≥ 0.9", every, isal)
    print()
    remove("trace.json.gz")


def growth():
    sizes = [options.size // 10, options.size, 3 * options.size]
    if options.large:
        sizes.append(10 * options.size)
    print("## Growth\n")
    for size in sizes:
        path = in_work("trace.json")
        truth = make_kineto(path, size)
        print(f"{truth.bytes / 1e6:.0f} MB, {truth.kernels} kernels:\n")
        compare([kernels_of(path, one_core=True), kernels_of(path)], truth)
        remove("trace.json")


def nsight():
    path = in_work("trace.sqlite")
    truth = make([sys.executable, os.path.join(HERE, "make_nsight.py"), os.path.join(HERE, "data"),
                  path, str(options.size)])
    warm(path)
    print(f"## Nsight Systems export of {truth.bytes / 1e6:.0f} MB, {truth.kernels} kernels\n")
    run = in_work("import.mscope")
    scan = Case("SQLite's scan of kernels and calls",
                peer("scan.py", path, "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"),
                one_core=True)
    scan_all = Case("SQLite's scan of all tables", peer("scan.py", path), one_core=True)
    one, every = kernels_of(path, one_core=True), kernels_of(path)
    into = Case("moescope import", ["sh", "-c", 'rm -rf "$1" && exec "$0" import "$2" -o "$1"',
                                    *command_of("moescope", run, path)])
    compare([one, every, scan, into, scan_all], truth)
    ratio("kernels: times the speed of SQLite's scan of the same tables", "≥ 0.77 (1.3 × its time)",
          every, scan)
    ratio("import: times the speed of SQLite's scan of all tables", "≥ 0.77 (1.3 × its time)", into,
          scan_all)
    print()
    remove("trace.sqlite", "import.mscope")


def exports():
    kernels = KERNELS_A_GB * options.size // 10**9
    run = in_work("run.mscope")
    subprocess.run(command_of("bench/bench-make-run", os.path.join(HERE, "data"), run, str(kernels)),
                   check=True)
    size = sum(entry.stat().st_size for entry in os.scandir(run))
    for entry in os.scandir(run):
        warm(entry.path)
    print(f"## A run of {kernels} kernels, {size / 1e6:.0f} MB, for others; MB/s of the run\n")
    out = in_work("out")
    cases = [Case(f"export to {form}", command_of("moescope", "export", run, "--to", form, "-o", out))
             for form in ("perfetto", "sqlite", "chrome")]
    cases.append(Case("sql, group by name", command_of("moescope", "sql", run, GROUP_BY)))
    compare(cases, Truth(kernels, 0, size))
    print("Asked: Perfetto ≤ 10 s, sql ≤ 1 s, with 10 million kernels.\n")
    remove("run.mscope", "out")


SECTIONS = {"kineto": kineto, "gzip": gzip, "growth": growth, "nsight": nsight, "export": exports}


def arguments():
    parser = argparse.ArgumentParser(prog="ingest.sh")
    parser.add_argument("--hta", default="", help="Python that has Holistic Trace Analysis")
    parser.add_argument("--trace-processor", default=os.environ.get("TRACE_PROCESSOR", ""),
                        help="Perfetto's trace_processor_shell")
    parser.add_argument("--large", action="store_true", help="growth to ten times the size")
    parser.add_argument("--quick", action="store_true", help="without the Python peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--style", default="torch2", help="of bench-make-kineto")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by commas")
    parser.add_argument("build")
    parser.add_argument("work")
    parser.add_argument("size", type=int)
    return parser.parse_args()


def main():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        for line in cpus:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    print(f"machine: {model}, {len(os.sched_getaffinity(0))} CPUs, {os.uname().release}; "
          f"load before: {load}\n", flush=True)
    for name in options.only.split(","):
        SECTIONS[name]()
    for failure in failures:
        print(f"ingest.py: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


options = arguments()
if __name__ == "__main__":
    main()
