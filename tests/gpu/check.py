#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GPU probe on a real device: check.py BUILD [--only NAME,NAME]

Prints 'ok NAME', 'FAIL NAME: why' or 'skip NAME: why', and ends with 'N passed, N failed'. Programs
have a time limit: a hang is a failure.
"""
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import compare  # noqa: E402

PROGRAM = [sys.executable, os.path.join(HERE, "program.py")]
DRIVER = [sys.executable, os.path.join(HERE, "driver.py")]
STEPS = 20


class Skip(Exception):
    pass


class Trouble(Exception):
    pass


class Checks:
    def __init__(self, build, folder):
        self.build = os.path.abspath(build)
        self.moescope = os.path.join(self.build, "moescope")
        self.folder = folder
        self.passed = self.failed = 0
        self.runs = 0
        done = self.run(self.moescope, "run", "--help")
        self.complete = ["--budget", "off"] if "--budget" in done.stdout else []

    def check(self, name, good, why=""):
        self.passed += bool(good)
        self.failed += not good
        print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)

    def each(self, names, test):
        """test(self, name) of every name, and the exit status."""
        for name in names:
            try:
                test(self, name)
            except Skip as why:
                print(f"skip {name}: {why}", flush=True)
            except Trouble as trouble:
                self.check(name, False, str(trouble))
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0

    def run(self, *words, limit=60, env=None):
        """Status 124: it timed out."""
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", start_new_session=True,
                              env=dict(os.environ, **(env or {}))) as child:
            try:
                out, err = child.communicate(timeout=limit)
                status = child.returncode
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                out, err = child.communicate()
                status, err = 124, err + f"\nnot done after {limit} s"
        return subprocess.CompletedProcess(words, status, out, err)

    def must(self, done):
        if done.returncode != 0:
            raise Trouble(f"{' '.join(done.args)}: status {done.returncode}\n{done.stdout[-1000:]}"
                          f"\n{done.stderr[-3000:]}")
        return done

    def new_path(self):
        self.runs += 1
        return os.path.join(self.folder, f"{self.runs}.mscope")

    def under(self, path, *words, options=None):
        """The words that run a program under moescope; records everything by default."""
        options = self.complete if options is None else options
        return [self.moescope, "run", "-q", "-o", path, *options, "--", *words]

    def table(self, command, path, *options):
        done = self.must(self.run(self.moescope, command, path, "--json", *options))
        return json.loads(done.stdout)

    def kernels(self, path, *options):
        return self.table("kernels", path, "--limit", "0", *options)

    def by_range(self, path, pattern):
        """Kernels by the matching part of their range path."""
        counts = collections.Counter()
        for row in self.kernels(path, "--by", "range")["rows"]:
            found = re.findall(pattern, str(row.get("range") or ""))
            if found:
                counts[found[-1]] += row["count"]
        return dict(counts)

    def example(self, name):
        folder = os.path.join(self.build, "examples")
        done = self.run(os.path.join(ROOT, "examples", "cuda", "build.sh"), folder, name, limit=120)
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise Skip(done.stderr.strip().replace("\n", " "))
        return path

    def torch(self):
        done = self.run(sys.executable, "-c", "import torch; torch.zeros(1).cuda()")
        if done.returncode != 0:
            raise Skip("python3 has no PyTorch that reaches the GPU: " +
                       (done.stderr.strip().splitlines() or ["no message"])[-1])


def last_json(done):
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise Trouble(f"{' '.join(done.args)}: no JSON object\n{done.stdout[-1000:]}\n"
                  f"{done.stderr[-2000:]}")


def lost(kernels):
    return {k: v for k, v in kernels["loss"].items() if v and k != "salvaged"}


def agreement(c):
    """Phase shares against CUDA events, memory against the allocator's own account."""
    c.torch()
    path = c.new_path()
    done = c.must(c.run(*c.under(path, sys.executable, os.path.join(HERE, "training_program.py"),
                                 "12"), limit=120,
                        env={"PYTHONPATH": os.path.join(ROOT, "python"),
                             "MOESCOPE_BUILD": c.build}))
    theirs = last_json(done)
    whole_ms = sum(theirs["ms"].values())
    phases = c.table("steps", path)["total"]["device_phases"]
    for phase, ms in theirs["ms"].items():
        ours, events = 100 * phases.get(phase, 0) / sum(phases.values()), 100 * ms / whole_ms
        c.check(f"share of {phase} within 2% of CUDA events", abs(ours - events) <= 2,
                f"{ours:.2f}% and {events:.2f}%")
        print(f"   {phase}: {ours:.2f}%, {events:.2f}% by events", flush=True)
    memory = [row for row in c.table("memory", path)["rows"] if row["device"] == 0][0]
    for name, key in (("account_peak_allocated_bytes", "max_memory_allocated"),
                      ("account_peak_reserved_bytes", "max_memory_reserved"),
                      ("peak_allocated_bytes", "requested_peak")):
        c.check(f"{name} is torch's {key}", memory.get(name) == theirs[key],
                f"{memory.get(name)} and {theirs[key]}")
    c.check("parameters in the composition",
            memory["composition"].get("parameters") == theirs["parameter_bytes"],
            f"{memory['composition']} and {theirs['parameter_bytes']}")


def against_torch(c):
    """Kernels of the same steps, by name and count, and their total time."""
    c.torch()
    path, setup = c.new_path(), c.new_path()
    done = c.run(*c.under(path, *PROGRAM, str(STEPS)))
    plain = c.must(c.run(*PROGRAM, str(STEPS)))
    c.check("the program is unharmed", done.returncode == 0 and done.stdout == plain.stdout,
            f"{done.stdout} {done.stderr[-2000:]}")
    c.must(c.run(*c.under(setup, *PROGRAM, "0")))
    profile = os.path.join(c.folder, "torch.json")
    c.must(c.run(*PROGRAM, str(STEPS), profile))
    theirs = collections.defaultdict(lambda: (0, 0))
    with open(profile) as f:
        for name, us in json.load(f):
            if compare.is_kernel(name):
                theirs[name] = (theirs[name][0] + 1, theirs[name][1] + us * 1e3)
    everything = c.kernels(path)
    ours = compare.steps_alone(compare.by_name(everything), compare.by_name(c.kernels(setup)))
    wrong = compare.differences(ours, theirs)
    c.check("the same kernels, by name and count", theirs and not wrong, f"(ours, theirs): {wrong}")
    ratio = compare.total_ns(ours) / compare.total_ns(theirs)
    c.check("total time within 2%", abs(ratio - 1) < 0.02, f"{ratio:.4f} of torch.profiler's")
    c.check("nothing lost", not lost(everything), lost(everything))
    c.check("no kernel untimed", everything["total"]["untimed"] == 0, everything["total"])
    ranges = c.by_range(path, r"forward|measured")
    c.check("kernels belong to NVTX ranges", ranges.get("forward") and len(ranges) == 2, ranges)
    copies = c.table("transfers", path)["rows"]
    moved = {row["memory"]: row["bytes"] for row in copies if row["kind"] == "HtoD"}
    want = (STEPS + 10) * (16 << 20)
    c.check("bytes copied from pinned memory", moved.get("pinned", 0) >= want, moved)
    c.check("bytes copied from pageable memory", moved.get("pageable", 0) >= want, moved)


def graph(c):
    """Kernels of a CUDA graph belong to the ranges of their capture, also after a re-capture."""
    program = c.example("decode_graph")
    path = c.new_path()
    done = c.run(*c.under(path, program, "--kernels", "60", "--layers", "6", "--replays", "300",
                          "--recapture", "100"))
    c.check("a graph's results are right", done.returncode == 0, done.stderr[-2000:])
    said = last_json(done)
    everything = c.kernels(path)
    count, launched = everything["total"]["count"], said["launched_kernels"]
    c.check("every kernel of a graph, once", count == launched,
            f"{count} of {launched}, {lost(everything)}")
    ranges = c.by_range(path, r"layer_\d\d")
    c.check("graph kernels by the range of their capture", ranges == said["ranges"],
            f"{ranges}, wanted {said['ranges']}")


def threads(c):
    """Several threads and streams, each with its own graph."""
    program = c.example("decode_graph")
    path = c.new_path()
    done = c.run(*c.under(path, program, "--kernels", "40", "--layers", "4", "--replays", "100",
                          "--threads", "3", "--streams", "2", "--recapture", "30"))
    c.check("threads and streams: results are right", done.returncode == 0, done.stderr[-2000:])
    said = last_json(done)
    streams = [row["count"] for row in c.kernels(path, "--by", "stream")["rows"]]
    c.check("threads and streams: kernels of each stream",
            streams == [said["launched_kernels"] // 6] * 6, f"{streams}, wanted 6 alike of {said}")
    ranges = c.by_range(path, r"layer_\d\d")
    c.check("threads and streams: by range", ranges == said["ranges"], f"{ranges}, wanted {said}")


def copies(c):
    """The expert MLP reports what it copied and launched; the run must match."""
    program = c.example("expert_mlp")
    path = c.new_path()
    done = c.run(*c.under(path, program, "--mib", "4", "--repeat", "5"))
    c.check("expert_mlp: results and copied bytes are right", done.returncode == 0,
            done.stderr[-2000:])
    said = last_json(done)
    want = {kind: (v["count"], v["bytes"]) for kind, v in said["copies"].items() if v["count"]}
    found = collections.defaultdict(lambda: (0, 0))
    for row in c.table("transfers", path)["rows"]:
        if row["kind"] in ("HtoD", "DtoH", "DtoD", "PtoP"):
            key = f"{row['kind']} {row['memory']}"
            found[key] = (found[key][0] + row["count"], found[key][1] + row["bytes"])
    c.check("copies by kind and memory: count and bytes", dict(found) == want,
            f"{dict(found)}, wanted {want}")
    ranges = c.by_range(path, "|".join(said["kernels"]))
    c.check("kernels by NVTX range", ranges == said["kernels"],
            f"{ranges}, wanted {said['kernels']}")


def programs(c):
    """Two contexts, CUDA loaded late or never, forks: every kernel is there, nothing hangs."""
    for way in ("contexts", "late", "fork", "fork-exec"):
        path = c.new_path()
        done = c.run(*c.under(path, *DRIVER, way), limit=40)
        c.check(f"{way}: the program is unharmed", done.returncode == 0,
                f"status {done.returncode}: {done.stderr[-1500:]}")
        if done.returncode != 0:
            continue
        launched, everything = last_json(done)["launched"], c.kernels(path)
        c.check(f"{way}: every kernel", everything["total"]["count"] == launched,
                f"{everything['total']['count']} of {launched}, {lost(everything)}")
    path = c.new_path()
    done = c.run(*c.under(path, *DRIVER, "never"), limit=40)
    c.check("never: a program without CUDA is unharmed", done.returncode == 0, done.stderr[-1500:])


def endings(c):
    """However a program ends, its status is its own and the run opens."""
    for words, status in ((["exit", "3"], 3), (["raise"], 1),
                          (["signal", str(int(signal.SIGSEGV))], -signal.SIGSEGV),
                          (["signal", str(int(signal.SIGINT))], None)):
        name = " ".join(words)
        plain = c.run(*DRIVER, *words, limit=40)
        path = c.new_path()
        done = c.run(*c.under(path, *DRIVER, *words), limit=40)
        c.check(f"{name}: the status is the program's",
                done.returncode == plain.returncode and status in (None, plain.returncode),
                f"{done.returncode}, alone {plain.returncode}: {done.stderr[-1500:]}")
        read = c.run(c.moescope, "kernels", path, "--json")
        c.check(f"{name}: the run opens", read.returncode == 0, read.stderr[-1000:])
        if words[0] == "raise" and read.returncode == 0:
            count = json.loads(read.stdout)["total"]["count"]
            c.check(f"{name}: every kernel", count == last_json(done)["launched"], count)


def children_of(pid):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(name))
        except OSError:
            continue
    return found


def killed(c):
    """What CUPTI had delivered is there after a SIGKILL."""
    program = c.example("decode_graph")
    path = c.new_path()
    with subprocess.Popen(c.under(path, program, "--eager", "--seconds", "60"),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        seen, deadline = 0, time.monotonic() + 30
        while seen <= 20000 and time.monotonic() < deadline:
            done = c.run(c.moescope, "kernels", path, "--json", "--limit", "1")
            if done.returncode == 0:
                seen = json.loads(done.stdout)["total"].get("count") or 0
            time.sleep(0.1)
        for pid in children_of(child.pid):
            os.kill(pid, signal.SIGKILL)
        status = child.wait(timeout=30)
    c.check("kernels can be read while the program runs", seen > 20000, seen)
    c.check("run ends as the program did", status == -signal.SIGKILL, status)
    count = c.kernels(path)["total"]["count"]
    c.check("delivered kernels are kept", count >= seen, f"{count}, before the kill {seen}")


def other_client(c):
    """torch.profiler inside a run: it sees all its kernels, and moescope continues afterwards."""
    c.torch()
    script = [sys.executable, os.path.join(HERE, "two_profilers.py"), str(STEPS), "6"]
    alone = last_json(c.must(c.run(*script[:-1], "0.1")))
    path = c.new_path()
    done = c.run(*c.under(path, *script))
    c.check("torch.profiler inside a run: the program is unharmed", done.returncode == 0,
            done.stderr[-2000:])
    said = last_json(done)
    c.check("torch.profiler inside a run: it sees what it sees alone",
            said["seen"] == alone["seen"], f"{said['seen']}, alone {alone['seen']}")
    ranges = c.by_range(path, "before|inside|after")
    c.check("torch.profiler inside a run: kernels before it", ranges.get("before"), ranges)
    c.check("torch.profiler inside a run: kernels after it", ranges.get("after"), ranges)
    report = c.must(c.run(c.moescope, "report", path, "--json")).stdout
    c.check("torch.profiler inside a run: the report names it", "torch.profiler" in report,
            "no 'torch.profiler' in report --json")


def training(c):
    """The PyTorch example under the default budget."""
    c.torch()
    path = c.new_path()
    script = os.path.join(ROOT, "examples", "pytorch", "train_moe.py")
    done = c.run(*c.under(path, sys.executable, script, "--steps", "20", options=[]))
    c.check("train_moe.py under the default budget", done.returncode == 0, done.stderr[-2000:])
    ranges = c.by_range(path, "forward|optimizer|router|experts")
    c.check("train_moe.py: kernels by range", {"router", "experts"} <= set(ranges), ranges)


def stress(c):
    """The transitions of the governor, as `doctor` proves them for a machine."""
    if "--stress" not in c.run(c.moescope, "doctor", "--help").stdout:
        raise Skip("this build's 'doctor' has no --stress")
    done = c.run(c.moescope, "doctor", "--stress", "--shifts", "400", limit=300)
    c.check("doctor --stress", done.returncode == 0,
            f"status {done.returncode}: {done.stdout[-2000:]} {done.stderr[-2000:]}")


TESTS = [against_torch, agreement, graph, threads, copies, programs, endings, killed, other_client,
         training, stress]


def main():
    words = sys.argv[1:]
    only = None
    if "--only" in words:
        at = words.index("--only")
        only = words[at + 1].split(",") if at + 1 < len(words) else []
        del words[at:at + 2]
        unknown = set(only) - {test.__name__ for test in TESTS}
        if unknown or not only:
            print(f"check.py: --only wants names of {', '.join(t.__name__ for t in TESTS)}",
                  file=sys.stderr)
            sys.exit(2)
    if not os.path.exists("/dev/nvidia0"):
        print("skip gpu: no NVIDIA GPU on this machine (/dev/nvidia0 is not there)")
        print("0 passed, 0 failed")
        return
    with tempfile.TemporaryDirectory() as folder:
        c = Checks(words[0] if words else "build", folder)
        for test in TESTS:
            if only and test.__name__ not in only:
                continue
            begin = time.monotonic()
            try:
                test(c)
            except Skip as why:
                print(f"skip {test.__name__}: {why}", flush=True)
            except Exception as why:  # the next test continues, this one has failed
                c.check(test.__name__, False, why if isinstance(why, Trouble)
                        else traceback.format_exc())
            print(f"-- {test.__name__}: {time.monotonic() - begin:.1f} s", file=sys.stderr,
                  flush=True)
    print(f"{c.passed} passed, {c.failed} failed")
    sys.exit(1 if c.failed else 0)


if __name__ == "__main__":
    main()
