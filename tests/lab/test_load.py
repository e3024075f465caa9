#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The load client against a server with its own clock."""

import contextlib
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from cli import Skip, main, test  # noqa: E402
from mock import began_ns, client, mock, rows, timed  # noqa: E402


def by_ordinal(path="truth.jsonl"):
    """What the server sent, in the order of the client's requests."""
    found = {int(row["id"].rsplit("-", 1)[1], 16): row for row in rows(path)}
    return [found[i] for i in sorted(found)]


def close_to(name, ours, theirs, share=0.005):
    assert abs(ours - theirs) <= share * theirs, f"{name}: {ours} by the client, {theirs} by the server"


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def check_figures(run, truth):
    """Every piece and token is there, and the figures match the server's clock."""
    ours = {"ttft": [], "tpot": [], "itl": [], "e2e": []}
    theirs = {"ttft": [], "tpot": [], "itl": [], "e2e": []}
    assert len(run.requests) == len(truth), (len(run.requests), len(truth))
    for request, told in zip(run.requests, truth):
        assert request["output_tokens"] == told["output_tokens"], (request, told)
        assert request["prompt_tokens"] == told["prompt_tokens"], (request, told)
        assert len(request["pieces_ns"]) == len(told["pieces"]), (request, told)
        for figures, times, start in (
                (ours, request["pieces_ns"], request["sent_ns"]),
                (theirs, [at for at, _ in told["pieces"]], began_ns(told))):
            figures["ttft"].append(times[0] - start)
            figures["tpot"].append((times[-1] - times[0]) / (told["output_tokens"] - 1))
            figures["itl"] += gaps(times)
            figures["e2e"].append(times[-1] - start)
    for name in ours:
        close_to(f"mean {name}", statistics.fmean(ours[name]), statistics.fmean(theirs[name]))
        close_to(f"median {name}", statistics.median(ours[name]),
                 statistics.median(theirs[name]), share=0.02 if name == "itl" else 0.005)
    tokens = sum(request["output_tokens"] for request in run.requests)
    close_to("throughput", tokens / (run.requests_end_ns() - run.requests[0]["sent_ns"]),
             tokens / (max(t["end_ns"] for t in truth) - min(map(began_ns, truth))))


@test
@timed
def figures_are_those_of_the_server():
    with mock(ttft_ms=300, gap_ms=25, jitter=0.4, seed=3) as url:
        run = client(url, requests=150, arrival="poisson", request_rate=30, max_tokens=40,
                     prompt_tokens="uniform:5,50")
    assert run.ends() == {"ok": 150}, run.ends()
    check_figures(run, by_ordinal())


@test
@timed
def time_to_first_token_under_many_requests():
    """The server, a Python program, reads requests a millisecond late at this rate; the kernel
    knows when they arrived."""
    with mock(ttft_ms=100, gap_ms=100, jitter=0.3, seed=1) as url:
        run = client(url, requests=1000, arrival="poisson", request_rate=200, max_tokens=20)
    assert run.ends() == {"ok": 1000}, run.ends()
    truth = by_ordinal()
    if any(told["arrived_ns"] is None for told in truth):
        raise Skip("this kernel does not note when bytes of a TCP stream arrive")
    for request, told in zip(run.requests, truth, strict=True):
        assert request["sent_ns"] <= told["arrived_ns"] + 10_000 <= told["received_ns"] + 20_000, told
    close_to("mean ttft", statistics.fmean(r["pieces_ns"][0] - r["sent_ns"] for r in run.requests),
             statistics.fmean(told["pieces"][0][0] - told["arrived_ns"] for told in truth))


@test
@timed
def throughput_of_a_closed_loop():
    with mock(ttft_ms=100, gap_ms=10) as url:
        run = client(url, requests=100, concurrency=10, max_tokens=30)
    truth = by_ordinal()
    close_to("throughput", 3000 / (run.head["end_ns"] - run.head["start_ns"]),
             3000 / (max(t["end_ns"] for t in truth) - min(map(began_ns, truth))))


@test
@timed
def stalls_bursts_and_cuts():
    with mock(ttft_ms=300, gap_ms=20, jitter=0.5, stall_pct=2, stall_ms=300, burst_pct=20,
              merge_pct=15, split_pct=20, seed=4) as url:
        run = client(url, requests=150, arrival="gamma", burstiness=4, request_rate=30,
                     output_tokens="normal:60,20")
    assert run.ends() == {"ok": 150}, run.ends()
    check_figures(run, by_ordinal())


@test
def chat_has_a_chunk_with_the_role_alone():
    with mock(ttft_ms=50, gap_ms=5) as url:
        run = client(url, requests=4, max_tokens=6, endpoint="chat")
    for request in run.requests:
        assert len(request["empties_ns"]) == 1 and len(request["pieces_ns"]) == 6, request
        assert request["empties_ns"][0] <= request["pieces_ns"][0]
    assert run.text.split("\n")[0] == " the model routes each token to", run.text


@test
@timed
def each_end_is_what_happened():
    with mock(ttft_ms=20, gap_ms=2, error_pct=10, error_status=429, reset_pct=10, silent_pct=5,
              seed=5) as url:
        run = client(url, requests=200, concurrency=50, max_tokens=8, request_timeout_s=3)
    truth = by_ordinal()
    ends = {"ok": "ok", "error": "failed", "reset": "failed", "silent": "timeout"}
    for request, told in zip(run.requests, truth, strict=True):
        assert request["end"] == ends[told["end"]], (request, told)
        if told["end"] == "error":
            assert request["error"] == ("the server answered with status 429: the plan of this "
                                        "request is to fail"), request["error"]
        elif told["end"] == "reset":
            # A reset may overtake the last bytes before it.
            assert len(request["pieces_ns"]) <= len(told["pieces"]), (request, told)
            assert "middle of the answer" in request["error"], request["error"]
        elif told["end"] == "silent":
            assert request["error"] == "no complete answer within 3 s.", request["error"]
            assert 3e9 <= request["end_ns"] - request["sent_ns"] < 4e9, request
    assert {told["end"] for told in truth} == set(ends), "the plan has every fault"


@test
@timed
def cancels_its_share():
    with mock(ttft_ms=50, gap_ms=50, jitter=0) as url:
        run = client(url, requests=100, concurrency=100, max_tokens=20, cancel_pct=30,
                     cancel_after_s=0.4)
    truth = by_ordinal()
    for request, told in zip(run.requests, truth, strict=True):
        assert (request["end"], told["end"]) in (("cancelled", "closed"), ("ok", "ok")), (request, told)
        if request["end"] == "cancelled":
            assert 4e8 <= request["end_ns"] - request["sent_ns"] < 8e8, request
    assert 15 <= run.ends()["cancelled"] <= 45, run.ends()


@test
@timed
def arrivals_keep_their_clock():
    with mock(ttft_ms=20, gap_ms=5) as url:
        run = client(url, requests=200, arrival="poisson", request_rate=100, max_tokens=4)
        limited = client(url, "limited.jsonl", requests=30, arrival="constant", request_rate=1000,
                         max_tokens=4, concurrency=2)
    due = [request["due_ns"] - run.head["start_ns"] for request in run.requests]
    assert due[-1] == 2_000_000_000, due[-1]
    assert due == sorted(due)
    assert all(request["sent_ns"] >= request["due_ns"] for request in run.requests)
    late = sorted(request["sent_ns"] - request["due_ns"] for request in run.requests)
    assert late[100] < 1e6, f"half of the requests left {late[100] / 1e6} ms late or more"
    changes = sorted([(r["sent_ns"], 1) for r in limited.requests] +
                     [(r["end_ns"], -1) for r in limited.requests])
    under_way = most = 0
    for _, change in changes:
        under_way += change
        most = max(most, under_way)
    assert most == 2, most


@contextlib.contextmanager
def busy_machine():
    """Other processes want every core, twice."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def may_go_first():
    """Whether the kernel lets this user have a real-time class."""
    return subprocess.run([sys.executable, "-c", "import os; os.sched_setscheduler("
                           "0, os.SCHED_RR, os.sched_param(1))"], stderr=subprocess.DEVNULL
                          ).returncode == 0


@test
@timed
def punctual_on_a_busy_machine():
    if not may_go_first():
        raise Skip("a real-time class is not allowed here")
    with busy_machine(), mock(ttft_ms=20, gap_ms=20, first=False) as url:
        run = client(url, requests=200, arrival="poisson", request_rate=50, max_tokens=4)
    late = sorted(request["sent_ns"] - request["due_ns"] for request in run.requests)
    # One of a hundred may meet a pause of the whole machine.
    assert late[190] <= 1e6, f"95 of 100 requests left up to {late[190] / 1e6} ms late"
    assert run.cost["cpu_s"] <= 0.15 * run.cost["duration_s"], run.cost


@test
def replays_a_trace():
    with open("trace.jsonl", "w") as file:
        for at, words, tokens in ((5000, 3, 2), (5100, 40, 5), (5250, 7, 1)):
            file.write(f'{{"timestamp": {at}, "input_length": {words}, "output_length": {tokens}}}\n')
    with mock(ttft_ms=5, gap_ms=5) as url:
        run = client(url, arrival="trace", arrival_trace="trace.jsonl")
    assert [r["due_ns"] - run.head["start_ns"] for r in run.requests] == [0, 10**8, 25 * 10**7]
    assert [(r["prompt_tokens"], r["output_tokens"]) for r in run.requests] == [
        (3, 2), (40, 5), (7, 1)]


@test
def a_seed_is_a_load():
    lengths = []
    with mock(ttft_ms=1, gap_ms=0.1) as url:
        for seed in (1, 1, 2):
            run = client(url, requests=20, concurrency=5, prompt_tokens="uniform:1,500",
                         output_tokens="lognormal:8,0.5", seed=seed)
            lengths.append([(r["prompt_tokens"], r["output_tokens"]) for r in run.requests])
    assert lengths[0] == lengths[1] != lengths[2], lengths


@test
def warms_up_first():
    with mock(ttft_ms=5, gap_ms=1) as url:
        run = client(url, requests=10, max_tokens=3, concurrency=4, warmup=6)
    assert len(run.warmup) == 6 and len(run.requests) == 10
    assert all(r["end_ns"] <= run.head["start_ns"] for r in run.warmup)
    assert all(r["sent_ns"] >= run.head["start_ns"] for r in run.requests)


@test
def stops_when_over_saturated():
    with mock(ttft_ms=100, gap_ms=10, slots=4) as url:
        run = client(url, requests=4000, arrival="constant", request_rate=80, max_tokens=11,
                     stop_over_saturated="true")
        good = client(url, "good.jsonl", requests=100, arrival="constant", request_rate=10,
                      max_tokens=11, stop_over_saturated="true")
    assert run.cost["over_saturated"] and run.head["over_saturated"], run.cost
    assert run.cost["duration_s"] < 25 and len(run.requests) < 2500, run.cost
    assert run.ends()["cancelled"] > 0 and run.ends()["ok"] > 50, run.ends()
    assert not good.cost["over_saturated"] and good.ends() == {"ok": 100}, good.cost


@test
def a_signal_ends_it_with_what_it_has():
    def stop(process):
        while True:  # until requests are in flight, according to the server's own file
            if os.path.exists("/proc/%d/fd" % process.pid) and len(
                    os.listdir("/proc/%d/fd" % process.pid)) > 15:
                process.terminate()
                return
            if process.poll() is not None:
                return

    with mock(ttft_ms=20, gap_ms=100) as url:
        run = client(url, started=stop, requests=500, concurrency=20, max_tokens=100)
    assert run.status == 0, run.error
    assert run.ends() == {"cancelled": len(run.requests)}, run.ends()
    assert 1 <= len(run.requests) <= 20


@test
def servers_of_all_manners():
    with mock(ttft_ms=5, gap_ms=1, usage=0) as url:
        run = client(url, requests=5, max_tokens=7)
    assert run.ends() == {"ok": 5}
    assert all(not r["server_counts"] and r["output_tokens"] is None and len(r["pieces_ns"]) == 7
               for r in run.requests), run.requests[0]
    with mock(ttft_ms=5, gap_ms=1) as url:  # listens on 127.0.0.1, and the name may be ::1 first
        run = client(url.replace("127.0.0.1", "localhost"), requests=5, max_tokens=7, model="m")
    assert run.ends() == {"ok": 5}, run.requests[0]["error"]
    with mock(ttft_ms=5, gap_ms=1, close=1) as url:
        run = client(url, requests=5, max_tokens=7)
    assert run.ends() == {"ok": 5} and run.requests[0]["output_tokens"] == 7
    with mock(ttft_ms=5, gap_ms=1, stale_pct=50) as url:
        run = client(url, requests=40, max_tokens=3, concurrency=2)
    assert run.ends() == {"ok": 40}, "requests on connections that the server has closed are sent anew"


@test
def what_cannot_be_done_is_said():
    for settings, words in (
            ({"url": "https://127.0.0.1:1"}, "only http:// is spoken here"),
            ({"url": "http://127.0.0.1:1"}, "does not answer: Connection refused"),
            ({"url": "ftp://x"}, "is not a server's URL"),
            ({"url": "http://127.0.0.1:1", "prompt_tokens": "some"}, "is not a length"),
            ({"url": "http://127.0.0.1:1", "arrival": "trace", "arrival_trace": "none"}, "none")):
        run = client(**settings)
        assert run.status == 1 and words in run.error and "\n" not in run.error, (settings, run.error)
    run = client("http://127.0.0.1:1", requests=3, model="m")
    assert run.ends() == {"failed": 3}
    assert "cannot be reached: Connection refused" in run.requests[0]["error"], run.requests[0]


if __name__ == "__main__":
    main()
