# SPDX-License-Identifier: Apache-2.0
"""What the rows of the GPU benchmark share: processes with time limits, alternations, intervals."""
import json
import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Failed(Exception):
    """A measurement failed; the text says why, in full."""


class OutOfTime(Exception):
    """The time limit of the whole benchmark is near."""


class Skipped(Exception):
    """This machine or build lacks what the row needs."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def interval(values):
    """Median, and an interval for it by order statistics: (median, low, high, confidence).

    The narrowest that contains the median of what was sampled with at least 95%; with fewer than
    six values that is impossible, and the interval is from the smallest to the largest with the
    confidence that it has. No assumption about the shape of the distribution.
    """
    v = sorted(values)
    n = len(v)
    best = (0, 1 - 2 * 0.5 ** n)
    tail = 0.5 ** n
    for k in range(1, n // 2):
        tail += math.comb(n, k) * 0.5 ** n
        if 1 - 2 * tail < 0.95:
            break
        best = (k, 1 - 2 * tail)
    k, confidence = best
    return statistics.median(v), v[k], v[n - 1 - k], max(confidence, 0.0)


def spread(values, unit="%", digits=2):
    """'+0.52% (95%: +0.31 to +0.70, n=6)'."""
    if not values:
        return "not measured"
    m, low, high, confidence = interval(values)
    if len(values) == 1:
        return f"{m:+.{digits}f}{unit} (n=1)"
    return (f"{m:+.{digits}f}{unit} ({100 * confidence:.0f}%: {low:+.{digits}f} to "
            f"{high:+.{digits}f}, n={len(values)})")


def last_json(text):
    """The last line of a program's output that is a JSON object."""
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise Failed("the program printed no JSON object; its output ends with: " + text[-500:])


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def child_of(pid):
    """The first child process, or None. Reads /proc: pgrep is not on every machine."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            return int(name)
    return None


class Bench:
    """Where things are, how much time is left, and what has been measured so far.

    Results are one JSON file, written after every measurement; a later call adds to it.
    """

    def __init__(self, build, json_path, alternations, quick, time_limit):
        self.build = os.path.abspath(build)
        self.moescope = os.path.join(self.build, "moescope")
        self.library = os.path.join(self.build, "libmoescope.so")
        self.alternations, self.quick = alternations, quick
        self.deadline = time.monotonic() + time_limit
        self.json_path = json_path
        self._folder = tempfile.TemporaryDirectory(prefix="moescope-bench-")
        self.folder = self._folder.name
        self.results = {"schema": "moescope/gpu-bench/1", "machine": {}, "rows": {}}
        if os.path.exists(json_path):
            with open(json_path) as f:
                self.results = json.load(f)
        self._help = {}

    def left(self):
        return self.deadline - time.monotonic()

    def need(self, seconds):
        """Raises if a measurement of about that length no longer fits."""
        if self.left() < seconds:
            raise OutOfTime()

    def save(self):
        temporary = self.json_path + ".new"
        with open(temporary, "w") as f:
            json.dump(self.results, f, indent=1)
        os.replace(temporary, self.json_path)

    def row(self, name):
        return self.results["rows"].setdefault(name, {"alternations": [], "errors": []})

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, command, timeout, env=None, check=True):
        """Runs it to its end, or to `timeout` seconds or the benchmark's own limit."""
        limit = max(1.0, min(timeout, self.left() - 2))
        started = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", env=dict(os.environ, **(env or {})),
                              start_new_session=True) as child:
            try:
                out, err = child.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                out, err = child.communicate()
                if limit < timeout:
                    raise OutOfTime() from None
                raise Failed(f"{shlex.join(command)}: not done after {limit:.0f} s\n"
                             f"{out[-1500:]}\n{err[-3000:]}") from None
        if check and child.returncode != 0:
            raise Failed(f"{shlex.join(command)}: status {child.returncode}\n"
                         f"{out[-1500:]}\n{err[-4000:]}")
        return subprocess.CompletedProcess(command, child.returncode, out,
                                           err), time.monotonic() - started

    def knows(self, command, option):
        """Whether this build's command has the option."""
        if command not in self._help:
            done, _ = self.run([self.moescope, command, "--help"], 20, check=False)
            self._help[command] = done.stdout + done.stderr
        return option in self._help[command]

    def budget(self, value):
        if self.knows("run", "--budget"):
            return ["--budget", value]
        if value == "off":
            return []  # without the option everything is recorded
        raise Skipped("this build's 'run' has no --budget")

    def under(self, run, budget, *options):
        """The words that put a program under moescope."""
        return [self.moescope, "run", "-q", "-f", "-o", run, *self.budget(budget), *options, "--"]

    def environment(self, budget):
        """What `moescope run` sets, for programs that start the recording themselves."""
        done, _ = self.run([*self.under(self.path("env.mscope"), budget), "/usr/bin/env", "-0"], 20)
        variables = dict(item.split("=", 1) for item in done.stdout.split("\0") if "=" in item)
        return {k: v for k, v in variables.items()
                if k.startswith("MOESCOPE_") and k != "MOESCOPE_RUN"}

    def table(self, command, run, *options, timeout=120):
        done, _ = self.run([self.moescope, command, run, "--json", *options], timeout)
        return json.loads(done.stdout)

    def kernels(self, run, *options, timeout=120):
        return self.table("kernels", run, "--limit", "0", *options, timeout=timeout)

    def example(self, name):
        """An example program, built if there is a compiler."""
        done, _ = self.run([os.path.join(ROOT, "examples", "cuda", "build.sh"),
                            os.path.join(self.build, "examples"), name], 240, check=False)
        path = os.path.join(self.build, "examples", name)
        if not os.path.exists(path):
            raise Skipped(f"examples/cuda/{name} is not built: {done.stderr.strip()}")
        return path

    def built(self, name):
        path = os.path.join(self.build, "bench", name)
        if not os.path.exists(path):
            raise Skipped(f"{path} is not built (were the CUDA headers found? see 'meson setup')")
        return path

    def alternate(self, name, methods, measure, seconds):
        """Measures every method in turn, in alternating order, until there are enough rounds.

        measure(method, i) returns what is kept; `seconds` is about how long one takes. Earlier
        measurements stay. A failing method is recorded with its whole message and left out for the
        rest of this call.
        """
        row = self.row(name)
        rounds = row["alternations"]
        failed = set()
        for i in range(self.alternations):
            if i == len(rounds):
                rounds.append({})
            order = list(methods) if i % 2 == 0 else list(reversed(methods))
            for method in order:
                if method in failed or method in rounds[i]:
                    continue
                self.need(seconds)
                say(f"  {name} {i + 1}/{self.alternations}: {method}  ({self.left():.0f} s left)")
                try:
                    rounds[i][method] = measure(method, i)
                except (Failed, Skipped) as error:
                    failed.add(method)
                    row["errors"].append(f"{method}: {error}")
                    say(f"  {method}: {error}")
                self.save()
        if failed == set(methods):
            raise Failed("nothing could be measured")
        return row

    def pairs(self, name, method, base="bare"):
        """[(base, method)] of the alternations that have both."""
        return [(kept[base], kept[method]) for kept in self.row(name)["alternations"]
                if base in kept and method in kept]


def added_pct(pairs, figure):
    return [100 * (figure(b) / figure(a) - 1) for a, b in pairs if figure(a) and figure(b)]


def find_keys(value, word, path=""):
    """Every number under a key that contains the word: [('overhead.coverage_pct', 3.1)]."""
    found = []
    if isinstance(value, dict):
        for key, inner in value.items():
            where = f"{path}.{key}" if path else key
            if word in key and isinstance(inner, (int, float)) and not isinstance(inner, bool):
                found.append((where, inner))
            found += find_keys(inner, word, where)
    elif isinstance(value, list):
        for inner in value[:50]:
            found += find_keys(inner, word, path)
    return found
