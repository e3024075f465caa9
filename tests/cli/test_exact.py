# SPDX-License-Identifier: Apache-2.0
"""Counters of single kernels: programs whose driver is tests/fake/fake_counters.c, in which launch number n counts
1000 n bytes."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys

from cli import MOESCOPE, Skip, check, environment, equal, main, moescope, test

BUILD = os.path.dirname(MOESCOPE)
FAKE = os.path.join(BUILD, "tests", "libfake_counters.so")
BYTES = "dram__read_throughput.sum"
TWO_GROUPS = f"{BYTES},sm__cycles_active.sum,sm__warps_active.sum,sm__ops_path_tensor_src_bf16.sum"
REPLAYED = "sm__throughput.sum"
PROGRAM = """
import ctypes, sys, threading
driver = ctypes.CDLL({fake!r}, mode=ctypes.RTLD_GLOBAL)
driver.fake_begin()
PLAIN, EXTENDED, GRAPH, BEGIN_CAPTURE, END_CAPTURE = 307, 652, 514, 539, 497
COOPERATIVE, NEW_STREAM, END_STREAM, OPEN_IPC = 477, 124, 326, 567
def launch(name, n=1, id=PLAIN, context=1, failed=0, hidden=0):
    for _ in range(n):
        driver.fake_call(id, name.encode(), ctypes.c_size_t(context), failed, hidden)
def call(id, failed=0, context=1):
    driver.fake_call(id, None, ctypes.c_size_t(context), failed, 0)
U64 = ctypes.c_uint64
def parameter(word, host=None):
    driver.fake_parameter(U64(word), host)
def memory():
    driver.fake_memory.restype = driver.fake_runs.restype = U64
    return driver.fake_memory(), driver.fake_runs()
{lines}
print("out")
sys.exit(3)
"""


def run(lines, *options, what=BYTES, trust="1", **changes):
    """The run of such a program, which must end as it would have ended without."""
    if not os.path.exists(os.path.join(BUILD, "libmoescope-exact.so")):
        raise Skip("built without the CUDA headers")
    env = environment(MOESCOPE_CUPTI=FAKE, MOESCOPE_CUDA=FAKE, MOESCOPE_TRUST=trust, **changes)
    r = moescope("run", "-q", "-f", "--no-auto", "--counters", what, *options, "-o", "a.mscope", "--", sys.executable, "-c",
                 PROGRAM.format(fake=FAKE, lines=lines), env=env)
    equal((r.status, r.out), (3, "out\n"), r.err)
    return r


def rows(query):
    r = moescope("sql", "a.mscope", "--csv", query)
    equal(r.status, 0, r.err)
    return [tuple(row) for row in csv.reader(io.StringIO(r.out))][1:]


def counted():
    """Kernels and the numbers of their launches, in their order."""
    return [(kernel, int(float(value)) // 1000) for kernel, value in rows(
        f"select kernel_name, value from metrics where name = '{BYTES}' order by profile")]


def fact(key):
    return dict(rows("select key, value from facts")).get(key)


@test
def every_launch_once():
    """More launches than a window holds, by both calls; each has its own value. Of many to come a window holds more."""
    run("launch('a', 600)", "--launch-count", "100000")
    check("to begin counting 1 time," in fact("time for counting"), fact("time for counting"))
    run("for i in range(300):\n    launch('a'); launch('b', id=EXTENDED)")
    equal(counted(), [("ab"[i % 2], i + 1) for i in range(600)])
    equal(fact("kernels counted"), "600 launches counted")
    check(re.fullmatch(r"launches were held up for [0-9.]+ ms to begin counting 2 times, [0-9.]+ ms to end it, [0-9.]+ ms to read the "
                       r"values and [0-9.]+ ms to give the counters back", fact("time for counting")), fact("time for counting"))
    equal(rows("select distinct device, context, grid_x, block_x from metrics"), [("0", "1", "2", "32")])
    table = moescope("counters", "a.mscope", "--csv").out
    check("dram__read_throughput.sum" in table and ",300," in table, table)


@test
def some_launches():
    r = run("launch('a', 10); launch('b', 10)", "--launch-skip", "5", "--launch-count", "7")
    check("counting 7 launches, one at a time, in 1 group of metrics of one pass, takes at least 1.50 s: 1.5 s to start and 0.13 ms "
          "per launch, as on an H200;" in r.err, r.err)
    equal(counted(), [("a", n) for n in range(6, 11)] + [("b", n) for n in range(11, 13)])
    run("for i in range(10):\n    launch('a'); launch('gemm')", "--kernel", "gemm", "--launch-skip", "2", "--launch-count", "3")
    equal(counted(), [("gemm", n) for n in (6, 8, 10)])


@test
def others_between():
    """Launches that come often share windows with what is between them, which is not told; nothing harmful is."""
    def told(lines, *options):
        run(lines, "--kernel", "norm", *options)
        return counted(), int(re.search("begin counting ([0-9]+) time", fact("time for counting"))[1]), fact("kernels counted")

    launched = "for i in range(200):\n    launch('gemm', 3); launch('norm')"
    found, begun, words = told(launched)
    equal(found, [("norm", n) for n in range(4, 801, 4)])
    # 26 alone, and a row of 512 launches, which ends before the third of those between the 128th and the 129th.
    equal((begun, words), (28, "200 launches counted; 518 others between them ran one by one, too"))
    found, begun, _ = told(launched, "--launch-count", "60")
    equal((found, begun), ([("norm", n) for n in range(4, 241, 4)], 27))
    # Few more are to come, or what is between is far, might wait for others, or is not there.
    equal(told(launched, "--launch-count", "50")[1], 50)
    equal(told("for i in range(60):\n    launch('gemm', 151); launch('norm')")[1], 60)
    equal(told("for i in range(60):\n    launch('mine'); launch('norm')")[1], 60)
    equal(told("for i in range(60):\n    call(GRAPH); launch('norm')")[1], 60)
    equal(told("launch('norm', 100)")[1], 27)
    # Rows of the chosen end before what would come too long after them.
    found, begun, _ = told("launch('norm', 100)\nfor i in range(3):\n    launch('gemm', 151); launch('norm')")
    equal((len(found), begun), (103, 30))


EXPERTS = f"""
ours = ctypes.CDLL({os.path.join(BUILD, "libmoescope.so")!r})
def ranged(text, work, layer=-1, expert=-1):
    ours.moescope_range_begin(ours.moescope_intern(text.encode()), layer, expert, 0)
    work()
    ours.moescope_range_end()
def experts():
    for e in range(2):
        ranged("expert", lambda: launch("gemm", 1 + e), expert=e)
class Routing(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("layer", ctypes.c_int32), ("phase", ctypes.c_int), ("experts", ctypes.c_uint32),
                ("k", ctypes.c_uint32), ("tokens", ctypes.c_uint64), ("indices", ctypes.c_void_p)] + [
                (name, ctypes.c_void_p) for name in ("weights", "scores", "mask", "types", "elsewhere")]
def route(n, chosen):
    indices = (ctypes.c_int32 * len(chosen))(*chosen)
    ours.moescope_route(ctypes.byref(Routing(size=ctypes.sizeof(Routing), layer=n, experts=2, k=1, tokens=len(chosen),
                                             indices=ctypes.addressof(indices))))
def layer(n):
    ranged("layer", lambda: (launch("norm"), route(n, [0] * 3 + [1] * 5 if n else [0, 1]), experts()), layer=n)
for step in range({{steps}}):
    ours.moescope_step_begin(ctypes.c_int64(step))
    launch("embed")
    layer(0); layer(1)
    ours.moescope_step_end(ctypes.c_uint64(8))
"""


@test
def launches_of_ranges():
    """By their names, layers and experts; each launch is told with its thread, in the order of time."""
    def launches(*options):
        run(EXPERTS.format(steps=2), *options)
        return "".join(f"{kernel[0]}{number} " for kernel, number in counted()).strip()

    equal(launches("--range", "^layer$"), "n2 g3 g4 g5 n6 g7 g8 g9 n11 g12 g13 g14 n15 g16 g17 g18")
    equal(launches("--range", "pert"), "g3 g4 g5 g7 g8 g9 g12 g13 g14 g16 g17 g18")
    equal(launches("--layer", "1"), "n6 g7 g8 g9 n15 g16 g17 g18")
    equal(launches("--layer", "0", "--expert", "1"), "g4 g5 g13 g14")
    equal(launches("--expert", "0", "--kernel", "gemm", "--launch-skip", "1", "--launch-count", "2"), "g7 g12")
    equal(launches("--range", "attention"), "")
    launches()
    equal(rows("select count(*), count(distinct thread), min(time_ns) > 0 from counted_launches"), [("18", "1", "1")])
    equal(rows("select count(*) from counted_launches a join counted_launches b on b.profile = a.profile + 1 "
               "where a.time_ns > b.time_ns"), [("0",)])


@test
def by_place():
    """Bytes, operations and tokens of ranges, layers and experts, by arithmetic of our own; launch n has 1000 n bytes."""
    run(EXPERTS.format(steps=5), what="dram__bytes.sum,gpu__time_duration.sum,sm__ops_path_tensor_src_bf16.sum")
    # In a step: embed, then in each layer norm, a launch of expert 0 and two of expert 1.
    order = [(None, None)] + [(layer, expert) for layer in (0, 1) for expert in (None, 0, 1, 1)]
    launches = [(step, *place, 9 * step + i) for step in range(5) for i, place in enumerate(order, 1)]

    def expected(chosen, tokens_in_a_step):
        numbers = [n for _, layer, expert, n in launches if chosen(layer, expert)]
        whole = [n for step, layer, expert, n in launches if chosen(layer, expert) and 0 < step < 4]
        return (len(numbers), 10 * sum(numbers), 1000 * sum(numbers), 4000 * sum(numbers), 4, 3, 3 * tokens_in_a_step,
                1000 * sum(whole) / (3 * tokens_in_a_step))

    def found(by, *keys):
        r = moescope("counters", "a.mscope", "--by", by, "--json")
        equal(r.status, 0, r.err)
        table = json.loads(r.out)["rows"]
        check(by != "range" or abs(sum(row["share_pct"] for row in table) - 100) < 1e-9, table)
        return {tuple(row[key] for key in keys): tuple(row[key] for key in (
            "launches", "time_ns", "dram_bytes", "tensor_ops", "ops_per_byte", "steps", "tokens",
            "dram_bytes_per_token")) for row in table}

    equal(found("expert", "layer", "expert"), {(l, e): expected(lambda x, y: (x, y) == (l, e), ((1, 1), (3, 5))[l][e])
                                               for l in (0, 1) for e in (0, 1)})
    equal(found("layer", "layer"), {(l,): expected(lambda x, _: x == l, (2, 8)[l]) for l in (0, 1)})
    equal(found("range", "range"), {
        (None,): expected(lambda x, _: x is None, 8),
        ("layer",): expected(lambda x, y: x is not None and y is None, 8),
        ("layer/expert",): expected(lambda _, y: y is not None, 8)})
    text = moescope("counters", "a.mscope", "--by", "expert", "--width", "100").out
    check("B/token" in text and max(map(len, text.splitlines())) <= 100, text)
    # Without whole steps there is no figure for a token, and of other metrics no bytes.
    run(EXPERTS.format(steps=2))
    equal({row[5:] for row in found("expert", "layer", "expert").values()}, {(0, None, None)})
    equal({row[1:5] for row in found("layer", "layer").values()}, {(None, None, None, None)})
    run("launch('a')")
    equal(found("expert", "layer", "expert"), {})
    check("none of them inside a range that names one" in moescope("counters", "a.mscope", "--by", "expert").out, "words")


@test
def groups_take_turns():
    """Each kernel has every group, in short programs, too; and each as often as the other, whatever runs between."""
    def shares():
        return {kernel: float(share) for kernel, share in rows(
            f"select kernel_name, 1.0 * sum(name = '{BYTES}') / count(distinct profile) from metrics group by 1")}

    # Changes take 0.25 s each. Of 50,000 launches of a group 511 are in 9 turns that grow, the others in turns of 512.
    r = run("launch('a')", "--launch-count", "100000", what=TWO_GROUPS)
    check("an estimated 1.73 ms per launch" in r.err, r.err)
    r = run("for i in range(10):\n    launch('a'); launch('b', 3)", what=TWO_GROUPS)
    check("takes about 7.18 s: 1.5 s to start and an estimated 5.68 ms per launch" in r.err, r.err)
    found = shares()
    check(set(found) == {"a", "b"} and all(0.2 <= share <= 0.8 for share in found.values()), found)
    check("metrics of them have no value" in fact("kernels counted"), fact("kernels counted"))
    run("for i in range(64):\n    launch('a'); launch('b')", "--kernel", "a", what=TWO_GROUPS)
    found = shares()
    check(set(found) == {"a"} and 0.2 <= found["a"] <= 0.8, found)
    # Rows of any length, beside turns of 64.
    for length in (63, 64, 65, 128, 200):
        run(f"for i in range(40):\n    for k in range({length}):\n        launch(f'k{{k}}')", "--launch-count", "100000",
            what=TWO_GROUPS)
        found = shares()
        check(len(found) == length and all(0.2 <= share <= 0.8 for share in found.values()), (length, found))


@test
def left_alone():
    """Communication, graphs, what is captured, launches that fail, other contexts."""
    run("launch('a'); launch('ncclDevKernel_AllReduce_Sum_bf16_RING_LL'); launch('b'); call(GRAPH); launch('c');"
        "call(BEGIN_CAPTURE); launch('captured'); call(END_CAPTURE); launch('d', failed=1); launch('e')")
    equal(counted(), [("a", 1), ("b", 3), ("c", 4), ("e", 6)])
    equal(fact("kernels counted"), "4 launches counted; not counted: 1 of communication; not counted: 1 of graphs; "
          "not counted: 1 into graphs")
    run("call(BEGIN_CAPTURE, failed=1); launch('a', 2)")
    equal(counted(), [("a", 1), ("a", 2)])
    run("launch('a'); launch('b', context=2); launch('c')")
    equal(counted(), [("a", 1), ("c", 3)])
    equal(fact("kernels counted"), "2 launches counted; not counted: 1 on other GPUs meanwhile")


def replayed(lines, *options, what=REPLAYED, **changes):
    """Names and numbers of the launches that were replayed, and the words that the run has of all."""
    run(lines, "--replay", "kernel", *options, what=what, **changes)
    return [(kernel, round(float(value) * 100)) for kernel, value in rows(
        f"select kernel_name, value from metrics where name = '{REPLAYED}' order by profile")], fact("kernels counted")


@test
def replay():
    """What needs several passes is counted in launches of their own; memory, and so the program's result, stays as it is."""
    launched = "for i in range(20): launch('gemm')\n"
    found, words = replayed(launched + "assert memory()[0] == 20 and memory()[1] > 20 + 4 * 5, memory()")
    check(len(found) >= 5 and found == sorted(set(found)) and {name for name, _ in found} == {"gemm"}, found)
    equal(words, "20 launches counted")
    equal(rows(f"select distinct section, count(*) > 0 from metrics where name = '{REPLAYED}'"), [("replayed in 5 passes", "1")])
    equal(rows("select count(distinct profile) from metrics where section is null and name = 'gpu__time_duration.sum'"),
          [(str(20 - len(found)),)])
    # Without --replay the metric is left out, as is what needs too many passes with others.
    r = run(launched, what=f"{BYTES},{REPLAYED}")
    check(f"left out {REPLAYED}: it needs several passes, and kernels are not run again without --replay kernel." in r.err, r.err)
    equal(len(counted()), 20)
    # Metrics of both kinds, and two that share passes.
    found, words = replayed(launched + "assert memory()[0] == 20, memory()", what=f"{BYTES},{REPLAYED},l1tex__throughput.sum")
    equal(rows("select distinct section from metrics where name like '%throughput.sum' and name not like 'dram%'"),
          [("replayed in 7 passes",)])
    check(len(found) >= 5 and len(counted()) == 20 - len(found), (found, counted()))


@test
def replay_costs():
    r = run("launch('gemm')", "--replay", "kernel", what=REPLAYED)
    check("in 2 groups of metrics: 1 of one pass, and 1 for which a kernel runs 5 times. That takes est. 64.5 s" in r.err,
          r.err)
    r = moescope("run", "--replay", "kernel", "--", "true")
    check(r.status == 2 and "'--replay' is for '--counters' of kernels" in r.err, r.err)


@test
def how_far_it_is():
    """On a terminal, at a tenth, at half and at the end; the program's own output stays whole."""
    stops = [os.path.join(os.getcwd(), f"next{i}") for i in range(4)]
    for stop in stops:
        os.mkfifo(stop)
    lines = f"""
for n, stop in zip((100, 100, 400, 400), {stops!r}):
    launch('a', n); call(GRAPH); open(stop).read()"""

    def shown(*options):
        """What the terminal has, and what it had at each stop."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [MOESCOPE, "run", *options, "-f", "--no-auto", "--no-host", "--counters", BYTES, "-o", "a.mscope", "--", sys.executable,
             "-c", PROGRAM.format(fake=FAKE, lines=lines)], stdout=theirs, stderr=theirs,
            env=environment(MOESCOPE_CUPTI=FAKE, MOESCOPE_CUDA=FAKE, MOESCOPE_TRUST="1"))
        os.close(theirs)
        text = b""
        for stop, words in zip(stops, (b"counted 100 of 1000 launches", None, b"counted 600 of 1000 launches",
                                       b"counted 1000 of 1000 launches")):
            while words and "-q" not in options and words not in text:
                text += os.read(ours, 4096)
            open(stop, "w").close()
        while True:
            try:
                more = os.read(ours, 4096)
            except OSError:  # nobody has the terminal any more
                break
            if not more:
                break
            text += more
        equal(process.wait(), 3)
        os.close(ours)
        return text.decode().replace("\r\n", "\n").splitlines()

    told = shown()
    equal([line for line in told if ": counted " in line],
          [f"moescope: counted {n} of 1000 launches, 1 of 1 group of metrics." for n in (100, 600, 1000)])
    check("out" in told, told)
    check(not [line for line in shown("-q") if ": counted " in line], "quiet")


@test
def passes_that_do_not_fit():
    """A share beyond 100%, and kernels that took longer: in the fake each takes longer than the one before."""
    replayed("launch('gemm', 60)", what=f"{REPLAYED},l1tex__throughput.avg.pct_of_peak_sustained_elapsed")
    r = moescope("counters", "a.mscope", "--json", "--limit", "0")
    equal(r.status, 0, r.err)
    doubts = {(row["metric"], row["section"] is not None): row["doubt"] for row in json.loads(r.out)["rows"]}
    equal(doubts["l1tex__throughput.avg.pct_of_peak_sustained_elapsed", True], "more than 100%: the passes do not fit together")
    equal(doubts["gpu__time_duration.sum", False], None)
    text = moescope("counters", "a.mscope").out
    check("replayed kernels whose passes may not fit together" in text, text)


@test
def kernels_that_are_not_replayed():
    """Each for its reason, which the run tells; it is then counted in no pass more than once."""
    before = "for i in range(3): launch('gemm')\n"

    def refused(why, lines, **changes):
        found, words = replayed(f"{lines}\nfor i in range(12): launch('gemm')\n"
                                "assert memory()[0] == memory()[1], memory()", **changes)
        check(found == [] and "not replayed: " in words and why in words, (found, words))

    refused("of a process that works with other GPUs or ranks", "launch('ncclDevKernel_AllReduce_Sum_bf16_RING_LL')")
    refused("of a process that works with other GPUs or ranks", "call(OPEN_IPC)")
    refused("of a process that works with other GPUs or ranks", "launch('gemm', context=2)")
    refused("of a process that works with other GPUs or ranks", "call(BEGIN_CAPTURE); launch('ncclDevKernel_x'); call(END_CAPTURE)")
    for name in ("WORLD_SIZE", "SLURM_NTASKS"):
        refused("of a process that works with other GPUs or ranks", "", **{name: "8"})
    refused("for want of free GPU memory", "driver.fake_free_memory(ctypes.c_size_t(40))")
    for word in (0xa00001000, 0xe00001000, 0xf00001000):
        refused("that have memory of the host or of another GPU", f"parameter({word})")
    refused("that have memory of the host or of another GPU",
            "here = ctypes.c_int(); parameter(ctypes.addressof(here))", MOESCOPE_FAKE_COUNTERS="pageable")
    refused("whose parameters cannot be read", "", MOESCOPE_FAKE_COUNTERS="opaque")
    for lines in ("launch('a', 30)", "driver.fake_into_stream(ctypes.c_size_t(77)); call(NEW_STREAM);"
                  "driver.fake_stream(ctypes.c_size_t(77), -1); driver.fake_into_stream(ctypes.c_size_t(0)); launch('gemm', 3)"):
        found, words = replayed(lines + "; assert memory()[0] == memory()[1], memory()")
        equal(found, [])
        check("names do not say" in words or "beside other work" in words, words)
    # Cooperative, and what a launch may be bound by; harmless attributes do not matter.
    for attribute, value, fit in ((2, 1, False), (2, 0, True), (4, 1, True), (6, 1, False), (7, 1, False), (10, 1, False),
                                  (8, 3, True), (16, 1, False), (99, 0, False)):
        found, words = replayed(f"driver.fake_attribute({attribute}, {value})\nlaunch('gemm', 12, id=EXTENDED)")
        equal(bool(found), fit, (attribute, words))
        check(fit or "cooperative or bound to others" in words, words)
    found, words = replayed("launch('gemm', 12, id=COOPERATIVE)")
    check(not found and "cooperative or bound to others" in words, words)
    # Kernels that take a second each.
    found, words = replayed("driver.fake_first(U64(50_000_000)); launch('gemm', 5)")
    check(not found and "whose passes would take too long" in words, words)


@test
def a_host_that_kernels_write_to():
    """Were they replayed, the program's own memory would differ."""
    found, _ = replayed("host = ctypes.c_int(0)\nparameter(0xa00001000, ctypes.byref(host))\nlaunch('gemm', 20)\n"
                        "assert host.value == 20, host.value")
    equal(found, [])


@test
def replay_beside_threads():
    """While a kernel is replayed no other thread is inside of the driver: neither launching nor copying."""
    found, words = replayed("""
done = threading.Event()
def copy():
    while not done.is_set(): driver.fake_copy()
other = threading.Thread(target=copy)
other.start()
def work(): launch("gemm", 60)
all = [threading.Thread(target=work) for _ in range(3)]
for t in all: t.start()
for t in all: t.join()
launch("gemm", 60)
done.set()
other.join()
launch("gemm", 20)
assert driver.fake_copies() > 0 and driver.fake_copies_beside() == 0, (driver.fake_copies(), driver.fake_copies_beside())
assert memory()[0] == 260, memory()""", MOESCOPE_FAKE_COUNTERS="slowly")
    refused = [int(part.split()[0]) for part in words.split("not replayed: ")[1:]]
    launches = rows("select count(distinct profile) from metrics")[0][0]
    check(found and "early" not in words and words.startswith(f"{launches} launches counted"), (found, words))
    check(int(launches) + sum(refused) >= 260, words)


@test
def replays_that_fail():
    """Passes that are missing make no value, and a launch that fails ends it all."""
    found, words = replayed("launch('gemm', 12)", MOESCOPE_FAKE_COUNTERS="short")
    check(not found and "in all passes" in words, words)
    found, words = replayed("launch('gemm', 1); launch('gemm', 1, failed=1); launch('gemm', 5)")
    equal(found, [])
    equal(fact("counters of kernels"), "a launch failed while it was to be replayed")
    found, words = replayed("launch('gemm', 1); launch('gemm', 1, hidden=1); launch('gemm', 9)")
    check("beside kernels of the driver" in words, words)


@test
def counters_are_given_back():
    """After the last launch that is counted nothing of the profiler is left in the context."""
    run("launch('a', 3); assert driver.fake_is_enabled(); launch('a', 3); assert not driver.fake_is_enabled(); launch('a', 2)",
        "--launch-count", "5")
    equal(fact("kernels counted"), "5 launches counted")


@test
def handlers_of_signals():
    """One that comes between begin and end of a launch and launches, too, neither waits for the lock nor gives it away."""
    run("""
import time
NESTED = ctypes.CFUNCTYPE(None)(lambda: launch('inside'))
begin = time.monotonic()
for i in range(20):
    driver.fake_signal_in_launch(NESTED)
    launch('outside')
call(GRAPH)
launch('after', 5)
assert time.monotonic() - begin < 30""")
    words = fact("kernels counted")
    check("early" not in words and "beside kernels of the driver" in words, words)
    equal([n for name, n in counted() if name == "after"], list(range(41, 46)))
    # One that fails is not taken for the launch around it.
    run("""
NESTED = ctypes.CFUNCTYPE(None)(lambda: launch('inside', failed=1))
for i in range(20):
    driver.fake_signal_in_launch(NESTED)
    launch('outside')""")
    equal(counted(), [("outside", n) for n in range(1, 21)])


@test
def beside_communication():
    """No window opens while a kernel runs that may wait for another rank, for the window would wait for it."""
    run("""
S = ctypes.c_size_t
driver.fake_into_stream(S(9)); call(NEW_STREAM)
launch('a'); driver.fake_stream(S(9), -1); launch('ncclDevKernel_SendRecv')
driver.fake_into_stream(S(0)); launch('b', 5)
driver.fake_stream(S(9), 0); launch('c', 2)
driver.fake_stream(S(9), -1); driver.fake_into_stream(S(9)); call(GRAPH); driver.fake_into_stream(S(0)); launch('d', 3)
# A stream that has gone is not asked about.
driver.fake_into_stream(S(9)); call(END_STREAM); driver.fake_into_stream(S(0)); launch('e', 2)""")
    equal([name for name, _ in counted()], ["a", "c", "c", "e", "e"])
    equal(fact("kernels counted"), "5 launches counted; not counted: 1 of communication; not counted: 8 while communication or a "
          "graph ran; not counted: 1 of graphs")


@test
def contexts_that_come_and_go():
    """More than there is room for at a time."""
    run("""
def context(n, begins): driver.fake_context(ctypes.c_size_t(n), begins)
for n in range(1, 41):
    context(n, 1); launch('a', context=n); context(n, 0)""")
    equal(len(counted()), 40)


@test
def a_launch_during_a_capture():
    """Threads that launch while another captures: no window opens then, which would break the capture."""
    run("""
stop = threading.Event()
def work():
    while not stop.is_set():
        launch('a')
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
for i in range(200):
    driver.fake_capture(1); driver.fake_capture(0)
stop.set()
for t in threads: t.join()
assert driver.fake_broken_captures() == 0, driver.fake_broken_captures()""", "--launch-count", "1000000")


@test
def kernels_of_the_driver():
    """Where there are more kernels than launches, nobody knows which is which."""
    run("launch('a', hidden=1); launch('b')")
    equal(counted(), [])
    check("2 beside kernels of the driver" in fact("kernels counted"), fact("kernels counted"))
    # Nor where it launches between the chosen, which have windows of their own from then on.
    run("for i in range(400):\n    launch('gemm', hidden=i == 40); launch('norm')", "--kernel", "norm")
    equal(len(counted()), 26 + 118)
    check(fact("kernels counted").startswith("144 launches counted; not counted: 256 beside kernels of the driver"), fact("kernels counted"))
    check("to begin counting 145 times" in fact("time for counting"), fact("time for counting"))


@test
def threads():
    """Each launch of several threads has its own value."""
    run("""
def work(name):
    launch(name, 200)
all = [threading.Thread(target=work, args=(name,)) for name in 'abcd']
[t.start() for t in all]; [t.join() for t in all]""", "--launch-count", "800")
    equal(sorted(n for _, n in counted()), list(range(1, 801)))


@test
def threads_wait_for_a_change_of_groups():
    """Longer than for a kernel: launching beside it, or giving up, would be worse."""
    run("""
def work(name):
    launch(name, 3)
all = [threading.Thread(target=work, args=(name,)) for name in 'ab']
[t.start() for t in all]; [t.join() for t in all]""", what=TWO_GROUPS, MOESCOPE_FAKE_COUNTERS="slow")
    check(fact("kernels counted").startswith("6 launches counted") and "early" not in fact("kernels counted"),
          fact("kernels counted"))


@test
def a_forked_child():
    """It ends at once and leaves the open window to its parent."""
    run("""
import os, time
launch('a', 3)
child = os.fork()
if not child:
    sys.exit(0)
begin = time.monotonic()
status = os.waitpid(child, 0)[1]
assert status == 0 and time.monotonic() - begin < 30, status
launch('b', 3)""")
    equal(counted(), [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("b", 6)])
    equal(fact("kernels counted"), "6 launches counted")


@test
def beside_hostile_programs():
    """Each ends as it would have ended (run checks it): closed descriptors, limits, signals."""
    run("import os; launch('a', 3); os.closerange(3, 1024); launch('b', 3)")
    run("import resource; launch('a', 3); resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); launch('b', 300)")
    run("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)); launch('a', 300)")
    # Handlers launch, too.
    run("""
import signal
signal.signal(signal.SIGALRM, lambda *_: launch('inside'))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for i in range(500):
    launch('outside')
signal.setitimer(signal.ITIMER_REAL, 0)""", "--launch-count", "100000")
    check({kernel for kernel, _ in counted()} >= {"outside"}, counted()[:9])
    equal([n for _, n in counted()], sorted(n for _, n in counted()))


@test
def paused():
    """What is not recorded is not counted, and the rest is none the worse."""
    library = os.path.join(BUILD, "libmoescope.so")
    run(f"""
ours = ctypes.CDLL({library!r})
launch('a', 2); ours.moescope_pause(); launch('b', 2); ours.moescope_resume(); launch('c', 2)""")
    equal(counted(), [("a", 1), ("a", 2), ("c", 5), ("c", 6)])


@test
def counters_that_are_held():
    """The run says so, and the program goes on."""
    run("launch('a', 10)", MOESCOPE_FAKE_COUNTERS="held")
    equal(counted(), [])
    check("another profiler may hold the counters" in fact("counters of kernels"), fact("counters of kernels"))


SAMPLING = """
import os, time
U, S = ctypes.c_uint64, ctypes.c_size_t
STALLED, NOT_ISSUED, SELECTED, BARRIER = range(4)
def context(n, begins=1): driver.fake_context(S(n), begins)
def module(cubin, n=1, begins=1): driver.fake_module(S(n), cubin, S(len(cubin)), begins)
def sample(kernel, offset, reason, n, context=1, module=0):
    driver.fake_sample(S(context), kernel.encode(), U(module), U(offset), reason, n)
def elf(section, size=4096):
    import struct
    names = b"\\0.shstrtab\\0" + section + b"\\0"
    header = b"\\x7fELF\\2\\1\\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 1)
    sections = [bytes(64), struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 256, len(names), 0, 0, 1, 0),
                struct.pack("<IIQQQQIIQQ", 11, 1, 0, 0, 256, 8, 0, 0, 1, 0)]
    return (header + b"".join(sections) + names).ljust(size, b"\\0")
"""


def sampled(lines, *options, **changes):
    return run(SAMPLING + lines, *options, what="pc", **changes)


def table(by, *columns):
    r = moescope("counters", "a.mscope", "--by", by, "--json", "--limit", "0")
    equal(r.status, 0, r.err)
    return [tuple(row[column] for column in columns) for row in json.loads(r.out)["rows"]]


@test
def samples_of_instructions():
    """Every sample once: those that are fetched in time, and those of a context that ends; lines where a module has them."""
    r = sampled("""
context(1); context(2)
with_lines, without = elf(b".debug_line"), elf(b".text.heavy", 5000)
module(with_lines); module(without); module(b"no cubin"); module(with_lines[:300])
for i in range(1000):
    sample("heavy", 16 * (1 + i % 4), STALLED, 2, module=len(with_lines))
    sample("heavy", 16 * (1 + i % 4), NOT_ISSUED, 1, module=len(with_lines))
sample("heavy", 64, SELECTED, 5000, module=len(with_lines))
sample("heavy", 64, BARRIER, 10, module=len(with_lines))
sample("light", 0x1f0, BARRIER, 7, context=2, module=len(without))
driver.fake_dropped(U(9))
module(without, begins=0)
sample("light", 0x200, BARRIER, 1, module=len(without))
module(without)
context(2, 0)
context(2)
sample("light", 0x1f0, BARRIER, 3, context=2, module=len(without))""")
    check("with a buffer of 64 MiB in each GPU's memory" in r.err, r.err)
    equal(fact("instructions sampled"), "7030 samples, one every 2^14 cycles; 9 dropped by the hardware")
    equal(table("stall", "short_name", "stall", "samples", "not_issued"),
          [("heavy", "selected", 5000, 0), ("heavy", "long_scoreboard", 2000, 1000), ("heavy", "barrier", 10, 0),
           ("light", "barrier", 11, 0)])
    equal(table("line", "source", "file", "offset", "samples", "not_issued", "stall"),
          [("heavy.cu:4", "/src/heavy.cu", 64, 5510, 250, "long_scoreboard")] +
          [(f"heavy.cu:{n}", "/src/heavy.cu", 16 * n, 500, 250, "long_scoreboard") for n in (1, 2, 3)] +
          [("+0x1f0", None, 0x1f0, 10, 0, "barrier"), ("+0x200", None, 0x200, 1, 0, "barrier")])
    equal(rows("select distinct kernel, device, context from pc_samples where kernel is not null order by 1, 3"),
          [("heavy", "0", "1"), ("light", "0", "1"), ("light", "1", "2")])
    report = moescope("report", "a.mscope").out
    check("Where warps wait" in report and "heavy.cu:4" in report, report)


@test
def samples_of_some_kernels():
    sampled("context(1); sample('gemm', 0, BARRIER, 3); sample('norm', 0, BARRIER, 4)", "--kernel", "gem")
    equal(table("stall", "short_name", "samples"), [("gemm", 3)])
    for option in ("--launch-skip", "--range"):
        r = moescope("run", "--counters", "pc", option, "1", "--", "true")
        check(r.status == 2 and "is for '--counters' of kernels, such as basic" in r.err, r.err)


@test
def samples_beside_hostile_programs():
    """Threads that load and unload modules, a fork, contexts that come and go, a death: what was fetched is there."""
    sampled("""
import threading
def work(n):
    for i in range(50):
        context(n); module(elf(b".debug_line", 400 + i), n); sample("a", 16, BARRIER, 1, context=n)
        module(elf(b".debug_line", 400 + i), n, 0); context(n, 0)
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
for t in threads: t.start()
for t in threads: t.join()
child = os.fork()
if not child:
    context(7); sample("child", 0, BARRIER, 1, context=7); context(7, 0)
    os._exit(0)
os.waitpid(child, 0)""")
    equal(table("stall", "short_name", "samples"), [("a", 200)])
    # Closed descriptors, limits, signals whose handlers load modules.
    work = "context(1); sample('a', 16, BARRIER, 3); {}; module(elf(b'.debug_line')); sample('b', 16, BARRIER, 3); context(1, 0)"
    sampled(work.format("os.closerange(3, 1024)"))
    sampled("import resource\n" + work.format("resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"))
    sampled("import resource\n" + work.format("resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))"))
    sampled("""
import signal
context(1)
def reload(*_):
    module(elf(b".debug_line", 500)); sample("inside", 16, BARRIER, 1); module(elf(b".debug_line", 500), begins=0)
signal.signal(signal.SIGALRM, reload)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for i in range(500):
    sample("outside", 16, BARRIER, 1); module(elf(b".debug_line", 600)); module(elf(b".debug_line", 600), begins=0)
signal.setitimer(signal.ITIMER_REAL, 0)""")
    equal(dict(table("stall", "short_name", "samples")).get("outside"), 500)
    # No context at all.
    sampled("pass")
    equal(fact("instructions sampled"), "0 samples")
    lines = SAMPLING + """
context(1); sample("before", 0, BARRIER, 5)
fetches = driver.fake_fetches()
while driver.fake_fetches() < fetches + 2: time.sleep(0.01)  # then the first of them is written
os.kill(os.getpid(), 9)"""
    r = moescope("run", "-q", "-f", "--no-auto", "--counters", "pc", "-o", "a.mscope", "--", sys.executable, "-c",
                 PROGRAM.format(fake=FAKE, lines=lines),
                 env=environment(MOESCOPE_CUPTI=FAKE, MOESCOPE_CUDA=FAKE, MOESCOPE_TRUST="1"))
    equal(r.status, -9, r.err)
    equal(table("stall", "short_name", "samples"), [("before", 5)])


@test
def samples_that_cannot_be_had():
    # What CUPTI hands out when a context ends is taken all the same.
    for state, words, left in (("denied", "only administrators may read counters", []), ("held", "another profiler may hold", []),
                               ("newer", "newer than any that", []), ("broken", "cannot be read", [(3,)])):
        sampled("context(1); sample('a', 0, BARRIER, 3); context(1, 0)", MOESCOPE_FAKE_COUNTERS=state)
        equal(table("stall", "samples"), left, state)
        check(words in fact("samples of instructions"), fact("samples of instructions"))
        shown = moescope("counters", "a.mscope", "--by", "line").out
        check(" ".join(words.split()[:3]) in " ".join(shown.split()), shown)
    # It is let go of while the program runs on; a context that ends meanwhile is not touched afterwards.
    sampled("""
context(1); context(2); sample('a', 0, BARRIER, 3)
while driver.fake_disables() < 2: time.sleep(0.01)
context(2, 0); context(3); context(1, 0)
assert driver.fake_disables() == 2""", MOESCOPE_FAKE_COUNTERS="broken")
    equal(table("stall", "samples"), [(3,)])
    sampled("context(1); sample('a', 0, BARRIER, 3)", MOESCOPE_FAKE_COUNTERS="full")
    equal(table("stall", "samples"), [(3,)])
    check("times the buffer on the device was full" in fact("instructions sampled"), fact("instructions sampled"))


@test
def words():
    for what, words in (("speed", "'speed' is not timeline, recorder or pc"),
                        ("timelin", "; the nearest is timeline."), ("basic,tensors", "; the nearest is tensor."), ("dram__sectors.sum", "FAKE has no metric 'dram__sectors.sum'"),
                        ("dram__read_throughput", "needs a part behind it")):
        r = run("launch('a')", what=what)
        check(r.err.startswith("moescope: '--counters' is left out: ") and words in r.err, r.err)
    for options in (("--range", "a"), ("--layer", "0"), ("--expert", "0"), ("--counters", "timeline", "--launch-skip", "1")):
        r = moescope("run", *options, "--", "true")
        check(r.status == 2 and "is for '--counters' of kernels, such as basic" in r.err, r.err)
    r = run("launch('a')", trust="")
    check("is not proved harmless" in r.err and r.err.count("\n") == 1 + r.err.count("nothing was recorded"), r.err)
    equal(rows("select count(*) from metrics"), [("0",)])
    r = run("launch('a')", what="pc", trust="")
    check("sampling instructions has ended PyTorch programs" in r.err, r.err)
    r = run("launch('a')", what="pc,basic")
    check("pc (where warps wait) goes with no other counters in one run" in r.err, r.err)


if __name__ == "__main__":
    main()
