# SPDX-License-Identifier: Apache-2.0
"""Starts the mock server for tests and reads its truth; likewise the load client."""

import contextlib
import functools
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from cli import Skip  # noqa: E402

BUILD = os.path.abspath(os.environ.get("MOESCOPE_BUILD", "build"))
CLIENT = os.path.join(BUILD, "tests", "load-client")


def first_in_line():
    """Times are being tested: other processes of the machine wait, if allowed. Nice values do not
    apply across sessions, so it is a real-time class, the lowest."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


# Wakes up every two milliseconds on one CPU until its input ends; reports how many wake-ups were a
# millisecond late.
METRONOME = """
import os, select, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
ticks = late = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    due = time.monotonic() + 0.002
    time.sleep(0.002)
    ticks += 1
    late += time.monotonic() > due + 0.001
print(late / max(ticks, 1))
"""


def timed(function, tries=3):
    """A timing test. The machine alone can make it fail, so it is retried: what is wrong with the
    program is wrong each time. One that fails each time on a machine that does not even let a
    metronome run is skipped: a metronome on each CPU, as a hypervisor may take away one and leave
    the others."""
    @functools.wraps(function)
    def attempt():
        late = 0
        for _ in range(tries):
            metronomes = [subprocess.Popen([sys.executable, "-c", METRONOME, str(cpu)],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                           preexec_fn=first_in_line)
                          for cpu in os.sched_getaffinity(0)]
            failure = None
            try:
                function()
            except AssertionError as caught:
                failure = caught
            finally:
                late = max(late, *(float(metronome.communicate()[0]) for metronome in metronomes))
            if not failure:
                return
        if late < 0.01:
            raise failure
        raise Skip(f"the machine is too busy: {late:.0%} of a metronome's ticks were late; {failure}")
    return attempt


@contextlib.contextmanager
def mock(truth="truth.jsonl", first=True, **options):
    """The URL of a server that ends with the block; the truth is then complete. first: it runs
    before other processes, as the client does."""
    command = [sys.executable, os.path.join(HERE, "mock_server.py"), "--truth", str(truth)]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                              preexec_fn=first_in_line if first else None)
    try:
        line = server.stdout.readline().split()
        if len(line) != 2:
            raise RuntimeError(f"the mock server said {line}, status {server.poll()}")
        yield f"http://127.0.0.1:{line[1]}"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def began_ns(told):
    """When the server had the request: by the kernel's clock, which does not wait for the server.
    """
    return told["received_ns"] if told["arrived_ns"] is None else told["arrived_ns"]


class Run:
    """What the load client measured: requests in sending order, without warm-up."""

    def __init__(self, done, path):
        self.status, self.error = done.returncode, done.stderr.strip()
        if self.status == 0:
            self.cost = json.loads(done.stdout)
            lines = rows(path)
            self.head = lines[0]
            everything = sorted((line for line in lines[1:] if "sent_ns" in line),
                                key=lambda line: line["sent_ns"])
            self.requests = [r for r in everything if not r["warmup"]]
            self.warmup = [r for r in everything if r["warmup"]]
            self.text = next((line["text"] for line in lines if "text" in line), None)

    def requests_end_ns(self):
        return max(request["end_ns"] for request in self.requests)

    def ends(self):
        counts = {}
        for request in self.requests:
            counts[request["end"]] = counts.get(request["end"], 0) + 1
        return counts


def client(url, path="requests.jsonl", started=None, **parameters):
    """Runs the client, which goes before other processes by itself; `started` is called with its
    process while it runs."""
    settings = {"url": url, "warmup": 0, "endpoint": "completions", **parameters}
    process = subprocess.Popen([CLIENT, str(path), *(f"{k}={v}" for k, v in settings.items())],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if started:
            started(process)
        out, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return Run(subprocess.CompletedProcess(process.args, process.returncode, out, err), path)
