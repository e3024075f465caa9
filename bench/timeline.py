#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast serve draws the timeline of a large run, and what it costs.

usage: timeline.py BUILD DIRECTORY EVENTS...

Makes a run of about so many events in DIRECTORY (bench/make_run.c), has serve make its index, and opens it again
with another server, as a page does. Prints a table; removes the runs.
"""
import contextlib
import http.client
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

WIDTH = 1500
ASKED = 200  # boxes at each depth
EVENTS_A_KERNEL = 2.06


class Server:
    """A server of one directory, and what it is asked."""

    def __init__(self, moescope, directory):
        self.process = subprocess.Popen([moescope, "serve", directory, "--port", "0"], stdout=subprocess.PIPE, text=True)
        port = re.search(r":(\d+)/", self.process.stdout.readline()).group(1)
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=600)

    def get(self, path):
        """The answer, and the seconds until its last byte."""
        begin = time.perf_counter()
        self.connection.request("GET", path)
        reply = self.connection.getresponse()
        body = reply.read()
        took = time.perf_counter() - begin
        assert reply.status == 200, body
        return body, took

    def memory_mb(self, key):
        """VmRSS or VmHWM."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(key + r":\s+(\d+)", status).group(1)) / 1024

    def cpu_s(self):
        """What it has used of the processors so far, on all threads."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def close(self):
        """Ends it."""
        self.connection.close()
        self.process.terminate()
        self.process.wait()


def measure_boxes(server, api, facts):
    """p50 and p95 in ms of all lanes at random places, by depth."""
    choice = random.Random(17)
    end = facts["end_ns"]
    for depth in (1, 10, 100, 1000, 10_000, 100_000, 1_000_000):
        span = max(end // depth, 1500)
        times, sizes, cpu_s = [], [], server.cpu_s()
        for _ in range(ASKED):
            begin = choice.randrange(max(end - span, ASKED * 100))
            body, took = server.get(f"{api}/boxes?from={begin}&to={begin + span}&width={WIDTH}")
            times.append(took * 1000)
            sizes.append(len(body))
        cpu_s = server.cpu_s() - cpu_s
        times.sort()
        print(f"  1/{depth:<8} of the time: p50 {times[ASKED // 2]:6.2f} ms, p95 {times[ASKED * 95 // 100]:6.2f} ms, "
              f"{cpu_s / ASKED * 1000:5.2f} ms of CPU, {sum(sizes) / ASKED / 1024:6.0f} KiB")


def measure_making(build, run, api):
    """The first request, which makes the index; the facts that it answers."""
    with contextlib.closing(Server(build / "moescope", run)) as server:
        facts, took = server.get(api)
        facts = json.loads(facts)
        index = (run / "timeline.lod").stat().st_size
        print(f"{facts['events']:,} events in {len(facts['lanes'])} lanes: index of {index / 2**20:.0f} MiB made in "
              f"{took:.1f} s, at most {server.memory_mb('VmHWM'):.0f} MB resident")
    return facts


def measure_answers(build, run, api, facts):
    """What a page asks, of a server that finds the index."""
    with contextlib.closing(Server(build / "moescope", run)) as server:
        lanes = server.get(api)[1]
        boxes = server.get(f"{api}/boxes?from=0&to={facts['end_ns'] + 1}&width={WIDTH}")[1]
        print(f"  first picture: lanes {lanes * 1000:.1f} ms, boxes {boxes * 1000:.1f} ms")
        measure_boxes(server, api, facts)
        for name, path in {"sums of a tenth": f"sums?from=0&to={facts['end_ns'] // 10}",
                           "sums of everything": f"sums?from=0&to={facts['end_ns'] + 1}",
                           "search": "search?text=gemm",
                           "find": "find?name=cudaLaunchKernel&after=1000000000"}.items():
            print(f"  {name}: {server.get(f'{api}/{path}')[1] * 1000:.1f} ms")
        print(f"  at most {server.memory_mb('VmHWM'):.0f} MB resident, {server.memory_mb('VmRSS'):.0f} MB in the end")


def measure(build, directory, events):
    """One run."""
    run = directory / f"timeline-{events}.mscope"
    api = f"/api/runs/{run.stem}/timeline"
    subprocess.run([build / "bench" / "bench-make-run", pathlib.Path(__file__).parent / "data", run,
                    str(int(events / EVENTS_A_KERNEL))], check=True, stdout=subprocess.DEVNULL)
    try:
        measure_answers(build, run, api, measure_making(build, run, api))
    finally:
        shutil.rmtree(run, ignore_errors=True)


def main():
    """All sizes."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    for events in sys.argv[3:]:
        measure(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), int(events))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
