#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many short programs side by side on a GPU, most of them under moescope: soak.py BUILD [OPTION]...

Every trial is forked from one process that has imported the frameworks and not touched CUDA; the
child sets the variables that `moescope run` would set. Freed memory is overwritten. Counts switches
of GPU collection, deaths, results that differ from those of the bare program, hangs, and runs that
cannot be opened. The exit status is 1 if there is any of the last four.
"""
import argparse
import collections
import ctypes
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import soak_programs as programs

HANG_SECONDS = 120  # beyond the time that the program was given
STACK_SECONDS = 60  # for a debugger to tell where it hangs
OPENERS = 4  # runs read at a time
TELL_SECONDS = 30
WATCHER = "tests/libwatch_frees.so"
HEAP_REPORT = "tests/libheap_report.so"
SCHEDULE = "wait=3,warmup=1,active=4,repeat=0"
MODES = {
    "bare": None,
    "default": {},
    "full": {"MOESCOPE_LEVEL": "full"},
    "schedule": {"MOESCOPE_SCHEDULE": SCHEDULE},
    # Windows of 10 ms without a pause, also with graphs where that is not proved yet.
    "shifts": {"MOESCOPE_SHIFTS": "100000", "MOESCOPE_TRUST": "1"},
    "stay": {"MOESCOPE_SHIFTS": "100000", "MOESCOPE_TRUST": "1", "MOESCOPE_STAY_ATTACHED": "1"},
    "off": {"MOESCOPE_BUDGET": "off"},
    # Kernels are counted, by one process at a time: the others are told so and go on.
    "counted": {"MOESCOPE_EXACT": "gpu__time_duration.sum,dram__bytes_read.sum,sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
                "MOESCOPE_LAUNCH_COUNT": "500"},
    # The same with groups that take turns.
    "turns": {"MOESCOPE_EXACT": "gpu__time_duration.sum,dram__bytes_read.sum;lts__t_sectors_lookup_miss.sum",
              "MOESCOPE_LAUNCH_COUNT": "500"},
    # The same with metrics for which kernels run again.
    "replayed": {"MOESCOPE_EXACT": "gpu__time_duration.sum,gpc__cycles_elapsed.avg.per_second;8 "
                                   "sm__throughput.avg.pct_of_peak_sustained_elapsed,lts__throughput.avg.pct_of_peak_sustained_elapsed",
                 "MOESCOPE_LAUNCH_COUNT": "100"},
    # Instructions are sampled.
    "pc": {"MOESCOPE_EXACT": "pc"},
}
COUNTING = ["counted", "turns", "replayed", "pc"]
MATRIX = {
    "train": list(MODES), "exact": list(MODES),
    "graphs": ["bare", "default", "shifts", "stay", "off", *COUNTING],
    "generate": ["bare", "default", "shifts", "stay", *COUNTING],
    "profiler": ["bare", "default", "full", "schedule", "shifts", "stay"],
    "jax": ["bare", "default", "shifts"], "cupy": ["bare", "default", "shifts"],
}
LATER, ENDED = "later", "ended"  # in place of a program and a mode to start
FAULTS = ("deaths", "wrong", "hangs", "unreadable")


def names(known):
    def parse(text):
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"there is no '{unknown[0]}'; there are {', '.join(known)}")
        return text.split(",")
    return parse


def share(text):
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("a share is from 0 to 1")
    return value


def parse(words):
    parser = argparse.ArgumentParser(prog="soak.py")
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--seconds", type=float, default=240, help="no trial begins after that")
    parser.add_argument("--lanes", type=int, default=max(4, (os.cpu_count() or 4) * 3 // 4),
                        help="trials at a time")
    parser.add_argument("--train-seconds", type=float, default=5, help="length of a trial")
    parser.add_argument("--only", type=names(MATRIX), metavar="PROGRAM,...")
    parser.add_argument("--modes", type=names(MODES), metavar="MODE,...")
    parser.add_argument("--kills", type=share, default=0.1, metavar="SHARE",
                        help="of the trials under moescope, killed at a random moment")
    parser.add_argument("--counting", type=int, default=1, help="of the trials at a time, that count kernels or sample "
                        "instructions: a GPU gives its counters to one process, and refuses the others")
    parser.add_argument("--steps", type=int, default=programs.EXACT_STEPS,
                        help="of 'exact'; with 10 there is little but the loading of libraries")
    parser.add_argument("--hang-seconds", type=float, default=HANG_SECONDS, help="beyond --train-seconds")
    parser.add_argument("--malloc-debug", action="store_true",
                        help="glibc checks the heap in every call (glibc.malloc.check=3)")
    parser.add_argument("--watch-frees", metavar="FILE",
                        help="each use of memory that CUPTI has freed is written there, and counts "
                        "as a fault; the program goes on (wants vm.max_map_count of millions)")
    parser.add_argument("--sampled", action="store_true",
                        help="counters of the GPU are sampled every millisecond meanwhile")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args(words)


def cells(only, modes):
    """The programs and modes to try."""
    return [(program, mode) for program in only or MATRIX for mode in modes or MATRIX[program]]


def judge(status, killed, hung, said, reference, errors):
    """How a trial ended and, for a fault, what is known about it."""
    last = (errors.strip().splitlines() or ["nothing on stderr"])[-1][:200]
    if hung:
        return "hangs", last
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if killed and number == signal.SIGKILL:
            return "killed", ""
        late = " after its last step" if said else ""
        return "deaths", f"{signal.Signals(number).name}{late}: {last}"
    if os.WEXITSTATUS(status) or not said:
        return "deaths", f"status {os.WEXITSTATUS(status)}: {last}"
    if "absent" in said:
        return "absent", said["absent"]
    if "wrong" in said:
        return "wrong", said["wrong"]
    if reference is not None and said["result"] != reference:
        pairs = enumerate(zip(reference, said["result"]))
        first = next((f"value {i} is {b}, bare {a}" for i, (a, b) in pairs if a != b),
                     "fewer or more values")
        return "wrong", f"differs from the bare program: {first}"[:200]
    return "ended", ""


def tally(results):
    """A row for each program and mode."""
    rows = {}
    for result in results:
        if result["end"] == "absent":
            continue
        row = rows.setdefault((result["program"], result["mode"]), dict.fromkeys(
            ("trials", "counted", "switches", "detached", "deaths", "wrong", "hangs", "killed", "unreadable"), 0))
        row["trials"] += 1
        row["counted"] += result["counted"]
        row["switches"] += result["switches"]
        row["detached"] += result["detached"]
        row["unreadable"] += result["unreadable"]
        if result["end"] in row:
            row[result["end"]] += 1
    return rows


def table(rows):
    order = sorted(rows, key=lambda key: (list(MATRIX).index(key[0]), list(MODES).index(key[1])))
    columns = list(next(iter(rows.values()), {}))
    lines = [["program", "mode", *columns]]
    lines += [[*key, *(str(rows[key][column]) for column in columns)] for key in order]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(line, widths))) for line in lines]


def verdict(results):
    """The last lines and the exit status."""
    rows = tally(results)
    sums = {key: sum(row[key] for row in rows.values()) for key in ("switches", "counted", *FAULTS)}
    words = collections.Counter((r["program"], r["mode"], r["words"]) for r in results
                                if r["end"] in FAULTS or r["unreadable"])
    lines = [f"{program} {mode}: {n} x {text}" for (program, mode, text), n in words.most_common()]
    under = sum(row["trials"] for (_, mode), row in rows.items() if MODES[mode] is not None)
    idle = under and not sums["switches"] and not sums["counted"]
    if idle:
        lines.append("no switch was recorded and nothing counted: nothing is shown")
    lines.append(f"switches {sums['switches']}, deaths {sums['deaths']}, wrong results "
                 f"{sums['wrong']}, hangs {sums['hangs']}, unreadable runs {sums['unreadable']}")
    return lines, 1 if idle or any(sums[key] for key in FAULTS) else 0


def switches(report):
    return len(report["overhead"].get("level_changes") or [])


def detached(facts):
    """As the library says at a session's end; a program that is killed says nothing."""
    return sum(map(int, re.findall(r"detached (\d+) times", facts)))


# What the library that counts has to say in the facts of a run.
COUNTED = re.compile("counted|samples|counters|launch")


def counted(facts):
    """Whether kernels were counted or instructions sampled: one process at a time may."""
    found = re.search(r"(\d+) (?:launches counted|samples)", facts)
    return int(found is not None and int(found[1]) > 0)


def stacks(pid):
    """Where its threads are, as far as there is a debugger."""
    debugger = next(filter(None, map(shutil.which, ("cuda-gdb", "gdb"))), None)
    if not debugger:
        return "no debugger tells where"
    try:
        said = subprocess.run([debugger, "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all backtrace 40"], capture_output=True,
                              text=True, errors="replace", timeout=STACK_SECONDS, check=False)
        return said.stdout[-20000:] + said.stderr[-500:]
    except subprocess.TimeoutExpired:
        return "the debugger did not tell where"


class Trial:
    def __init__(self, program, mode, out, kill_after):
        self.program, self.mode, self.out = program, mode, out
        self.begun = time.monotonic()
        self.kill_after = kill_after  # seconds, or None
        self.pid, self.killed, self.hung = None, False, False
        self.run, self.said, self.errors = out + ".mscope", out + ".said", out + ".err"
        self.report, self.result, self.opener = out + ".json", None, None


def child(trial, variables, seconds):
    """In the forked process; never returns."""
    status = 1
    try:
        errors = os.open(trial.errors, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        if variables:
            os.mkdir(trial.run)
            os.environ.update(variables)
        if "WATCH_FREES" in os.environ:
            ctypes.CDLL("libcuda.so.1")
            if ctypes.CDLL(None).watch_frees() != 0:
                raise RuntimeError("the memory of libcupti and the driver cannot be watched")
        library = []

        def tell():
            if "MOESCOPE_SCHEDULE" not in variables:
                return
            if not library:
                library.append(ctypes.CDLL(variables["CUDA_INJECTION64_PATH"]))
            library[0].moescope_step(ctypes.c_uint64(0))

        try:
            said = {"result": programs.PROGRAMS[trial.program](seconds, tell)}
        except programs.Wrong as why:
            said = {"wrong": str(why)}
        except programs.Absent as why:
            said = {"absent": str(why)}
        with open(trial.said, "w") as f:
            json.dump(said, f)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    if status:
        os._exit(status)
    # Ends as a C program: CUDA and moescope end, the parent's Python objects are left alone.
    ctypes.CDLL(None).exit(0)


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.moescope = os.path.abspath(os.path.join(options.build, "moescope"))
        self.library = os.path.abspath(os.path.join(options.build, "libmoescope.so"))
        self.running, self.to_open, self.opening, self.results = [], [], [], []
        self.reference = {}  # of programs whose bare run ended well
        self.begun, self.told, self.started = time.monotonic(), time.monotonic(), 0
        self.plain = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD",
                                                                       "GLIBC_TUNABLES")}

    def variables(self, trial):
        changes = MODES[trial.mode]
        if changes is None:
            return {}
        counted = self.library.replace("libmoescope.so", "libmoescope-exact.so")
        return {"CUDA_INJECTION64_PATH": counted if "MOESCOPE_EXACT" in changes else self.library,
                "NVTX_INJECTION64_PATH": self.library, "MOESCOPE_RUN": trial.run, **changes}

    def start(self, program, mode):
        self.started += 1
        kill_after = None
        if MODES[mode] is not None and random.random() < self.options.kills:
            kill_after = random.uniform(0.5, self.options.train_seconds + 3)
        trial = Trial(program, mode, os.path.join(self.folder, str(self.started)), kill_after)
        sys.stdout.flush()
        sys.stderr.flush()
        trial.pid = os.fork()
        if trial.pid == 0:
            child(trial, self.variables(trial), self.options.train_seconds)
        self.running.append(trial)

    def look(self, trial):
        """Kills it when its time has come; True if it has ended."""
        pid, status = os.waitpid(trial.pid, os.WNOHANG)
        passed = time.monotonic() - trial.begun
        if pid:
            trial.pid = None
            self.ended(trial, status)
        elif trial.kill_after is not None and not trial.killed and passed > trial.kill_after:
            trial.killed = True
            os.kill(trial.pid, signal.SIGKILL)
        elif not trial.hung and passed > self.options.train_seconds + self.options.hang_seconds:
            trial.hung = True
            print(f"{trial.program} {trial.mode} hangs: {stacks(trial.pid)}", flush=True)
            os.kill(trial.pid, signal.SIGKILL)
        return bool(pid)

    def ended(self, trial, status):
        said, errors = None, ""
        if os.path.exists(trial.said) and os.path.getsize(trial.said):
            with open(trial.said) as f:
                said = json.load(f)
        if os.path.exists(trial.errors):
            with open(trial.errors, errors="replace") as f:
                errors = f.read()
        end, words = judge(status, trial.killed, trial.hung, said,
                           self.reference.get(trial.program), errors)
        if end in FAULTS:
            print(f"{trial.program} {trial.mode}: {end}: {words}\n{errors[-3000:]}", flush=True)
        if end == "ended":
            self.reference.setdefault(trial.program, said["result"])
        trial.result = {"program": trial.program, "mode": trial.mode, "end": end, "words": words,
                        "switches": 0, "detached": 0, "counted": 0, "unreadable": 0,
                        "stderr": errors[-3000:] if end in FAULTS else ""}
        # A program killed early has no run yet; every other one must have one.
        recorded = any(name.endswith(".mst") and os.path.getsize(os.path.join(trial.run, name))
                       for name in os.listdir(trial.run)) if os.path.isdir(trial.run) else False
        if MODES[trial.mode] is not None and (recorded or end in ("ended", "wrong")):
            self.to_open.append(trial)
        else:
            self.done(trial)

    def open_next(self):
        trial = self.to_open.pop(0)
        with open(trial.report, "w") as out, open(trial.errors, "w") as errors:
            trial.opener = subprocess.Popen([self.moescope, "report", trial.run, "--json"],
                                            stdout=out, stderr=errors, env=self.plain)
        self.opening.append(trial)

    def opened(self, trial):
        """True if its report has ended."""
        status = trial.opener.poll()
        if status is None:
            return False
        if status == 0:
            with open(trial.report) as f:
                trial.result["switches"] = switches(json.load(f))
            facts = subprocess.run([self.moescope, "sql", trial.run, "select value from facts"],
                                   capture_output=True, text=True, env=self.plain, timeout=60)
            trial.result["detached"] = detached(facts.stdout)
            trial.result["counted"] = counted(facts.stdout)
            if trial.mode in COUNTING:
                trial.result["said"] = "; ".join(line for line in facts.stdout.splitlines() if COUNTED.search(line))
        else:
            with open(trial.errors, errors="replace") as f:
                said = f.read().strip()
            trial.result["unreadable"] = 1
            said = f"report: status {status}: {said[-200:]}"
            trial.result["words"] = "; ".join(filter(None, [trial.result["words"], said]))
        self.done(trial)
        return True

    def done(self, trial):
        self.results.append(trial.result)
        for path in (trial.said, trial.errors, trial.report):
            if os.path.exists(path):
                os.remove(path)
        shutil.rmtree(trial.run, ignore_errors=True)

    def go_through(self, trials):
        """Starts them in turn as lanes become free, and waits for the last."""
        trials = iter(trials)
        more = True
        while more or self.running or self.to_open or self.opening:
            behind = len(self.to_open) > self.options.lanes
            while more and not behind and len(self.running) < self.options.lanes:
                cell = next(trials, ENDED)
                more = cell != ENDED
                if not more or cell == LATER:
                    break
                self.start(*cell)
            self.running = [trial for trial in self.running if not self.look(trial)]
            self.opening = [trial for trial in self.opening if not self.opened(trial)]
            while self.to_open and len(self.opening) < OPENERS:
                self.open_next()
            if time.monotonic() - self.told > TELL_SECONDS:
                self.told = time.monotonic()
                print(f"{self.told - self.begun:.0f} s, {len(self.results)} trials: "
                      f"{verdict(self.results)[0][-1]}", file=sys.stderr, flush=True)
            time.sleep(0.05)

    def may_start(self, mode):
        return mode not in COUNTING or sum(trial.mode in COUNTING for trial in self.running) < self.options.counting

    def shuffled(self, wanted):
        """All of them repeatedly, in a different order each time, until the time is up."""
        while wanted:
            for program, mode in random.sample(wanted, len(wanted)):
                if time.monotonic() - self.begun > self.options.seconds:
                    return
                if self.may_start(mode):
                    yield program, mode
            yield LATER  # else nothing may be left that may start

    def soak(self, wanted):
        self.go_through((program, "bare") for program in dict.fromkeys(p for p, _ in wanted))
        for result in self.results:
            if result["end"] != "ended":
                print(f"skip {result['program']}: the bare program: {result['words']}", flush=True)
        self.go_through(self.shuffled([cell for cell in wanted if cell[0] in self.reference]))

    def stop(self):
        for trial in self.running:
            if trial.pid:
                os.kill(trial.pid, signal.SIGKILL)
                os.waitpid(trial.pid, 0)
        for trial in self.opening:
            trial.opener.kill()
            trial.opener.wait()


def environment(options):
    """Of the process that is forked: heap checks, and what the frameworks want to be told early."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("MOESCOPE_") and not k.endswith("_INJECTION64_PATH")}
    tunables = ["glibc.malloc.perturb=165"]
    report = os.path.abspath(os.path.join(options.build, HEAP_REPORT))
    if os.path.exists(report):
        env["LD_PRELOAD"] = report
    if options.watch_frees:  # it needs the signals for itself
        env["WATCH_FREES"] = os.path.abspath(options.watch_frees)
        env["LD_PRELOAD"] = os.path.abspath(os.path.join(options.build, WATCHER))
    if options.malloc_debug:
        tunables.append("glibc.malloc.check=3")
        env["LD_PRELOAD"] = " ".join(["libc_malloc_debug.so.0", *env.get("LD_PRELOAD", "").split()])
    env["GLIBC_TUNABLES"] = ":".join([*filter(None, [env.get("GLIBC_TUNABLES")]), *tunables])
    return dict(env, SOAK_ENVIRONMENT="set", MALLOC_PERTURB_="165", TOKENIZERS_PARALLELISM="false",
                CUBLAS_WORKSPACE_CONFIG=":4096:8", XLA_PYTHON_CLIENT_PREALLOCATE="false")


def uses_after_free(path):
    if not os.path.exists(path):
        return 0
    with open(path) as f:
        return sum(line.startswith("process ") for line in f)


def has_library(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def present(wanted):
    """Those whose modules are installed; names the others."""
    found = []
    for program in dict.fromkeys(p for p, _ in wanted):
        missing = [m for m in programs.NEEDS[program] if importlib.util.find_spec(m) is None]
        if missing:
            print(f"skip {program}: python3 has no {' and no '.join(missing)}", flush=True)
        else:
            found.append(program)
    return [cell for cell in wanted if cell[0] in found]


def sample(options, folder):
    """What `run --counters timeline` starts beside a program."""
    run = os.path.join(folder, "counters.mscope")
    os.mkdir(run)
    counters = subprocess.Popen([os.path.join(options.build, "moescope-counters"), "sample", run, "1000000", "0"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = counters.stdout.readline().strip()
    if said != "ready":
        sys.exit(f"soak.py: {said}")
    return counters


def main():
    options = parse(sys.argv[1:])
    if not os.path.exists("/dev/nvidia0"):
        print("skip gpu-soak: no NVIDIA GPU on this machine (/dev/nvidia0 is not there)")
        return 0
    if "SOAK_ENVIRONMENT" not in os.environ:
        if options.malloc_debug and not has_library("libc_malloc_debug.so.0"):
            print("soak.py: --malloc-debug wants libc_malloc_debug.so.0", file=sys.stderr)
            return 2
        if options.watch_frees and not os.path.exists(os.path.join(options.build, WATCHER)):
            print(f"soak.py: --watch-frees wants {WATCHER} in {options.build}; 'ninja {WATCHER}' "
                  "builds it", file=sys.stderr)
            return 2
        os.execve(sys.executable, [sys.executable, *sys.argv], environment(options))
    wanted = present(cells(options.only, options.modes))
    if not wanted:
        return 0
    programs.EXACT_STEPS = options.steps
    programs.warm({program for program, _ in wanted})
    with tempfile.TemporaryDirectory(prefix="moescope-soak-") as folder:
        soak = Soak(options, folder)
        sampling = sample(options, folder) if options.sampled else None
        try:
            soak.soak(wanted)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        finally:
            soak.stop()
        said = sampling.communicate()[0].strip() if sampling else ""
    lines, status = verdict(soak.results)
    if said:
        lines.append(f"counters: {said}")
        status = 1
    if options.watch_frees:
        uses = uses_after_free(options.watch_frees)
        lines.append(f"uses of memory that CUPTI has freed: {uses}")
        status = status or int(uses > 0)
    print("\n".join([*table(tally(soak.results)), *lines]), flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"schema": "moescope/gpu-soak/1", "options": vars(options),
                       "seconds": time.monotonic() - soak.begun, "status": status,
                       "rows": [{"program": p, "mode": m, **row}
                                for (p, m), row in tally(soak.results).items()],
                       "trials": [{key: r.get(key) for key in ("program", "mode", "end", "switches", "said")}
                                  for r in soak.results],
                       "faults": [r for r in soak.results
                                  if r["end"] in FAULTS or r["unreadable"]]}, f, indent=1)
    return status


if __name__ == "__main__":
    sys.exit(main())
