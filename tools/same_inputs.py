# SPDX-License-Identifier: Apache-2.0
"""The inputs that same.py gives to both builds: runs and files of other profilers, made once for
both.

A deep input meets every option of every command, a shallow one each command once, and a slight one
what reads it. All come from the repository: the hand-built runs, the recordings, the traces that
tests plant or write, the corpus of the fuzz targets, and a recording of the embedded model.
"""

import fnmatch
import gzip
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
# For a fuzz target's input, the rest of a file after the byte that chooses how.
CHOOSING = {"kineto", "shard"}
FUZZED = ("kineto", "nsight", "csv", "pickle", "shard")
DEEP_OF_FEW = ("training", "gpu", "recording", "kineto", "ranks")
TINY = ["--layers", "2", "--width", "16", "--heads", "2", "--experts", "4", "--top-k", "2",
        "--expert-width", "16", "--batch", "2", "--context", "16", "--threads", "1"]


class Input:
    """path: below the folder of inputs. kind: what it stands for where one of each is enough."""

    def __init__(self, path, kind, deep=False):
        self.path = path
        self.kind = kind
        self.deep = deep
        self.slight = kind.startswith("fuzz ")

    def word(self):
        return f"in/{self.path}"


def tests_module(name):
    """A module of the tests for what it writes; its tests are not run."""
    sys.path.insert(0, str(TESTS / "cli"))
    try:
        importlib.import_module("cli").main = lambda: None
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def run(command, **env):
    made = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **env}, check=False)
    if made.returncode != 0:
        raise SystemExit(f"same.py: {' '.join(map(str, command))} ended with {made.returncode}: "
                         f"{made.stdout.decode(errors='replace')[-2000:]}")


def operators():
    """A PyTorch trace with modules, stacks, shapes, a graph, copies, memory and counters."""
    events = []

    def add(cat, name, ts, dur, tid=2, pid=1, **args):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts,
                       "dur": dur, "args": args})

    for step in range(4):
        at, ids = 10000 * step, 100 * step
        add("user_annotation", f"ProfilerStep#{step}", at, 9000)
        add("python_function", "train.py(12): main", at + 5, 8900, **{"Python id": 1})
        for layer in range(2):
            t, n = at + 100 + 4000 * layer, ids + 10 * layer
            add("python_function", f"nn.Module: Block_{layer}", t, 3500,
                **{"Python id": 2 + layer, "Python parent id": 1})
            add("cpu_op", "aten::linear", t + 10, 200,
                **{"Input Dims": [[5, 24], [40, 24], [40]], "Sequence number": n,
                   "External id": n + 1, "Call stack": f"model.py({layer}): forward;train.py(12)"})
            add("cpu_op", "aten::addmm", t + 20, 150,
                **{"Input Dims": [[40], [5, 24], [24, 40], [], []], "External id": n + 2})
            add("cuda_runtime", "cudaLaunchKernel", t + 40, 12, correlation=n + 1)
            add("kernel", "void cutlass::Kernel<gemm_bf16>(Params)", t + 80, 700, tid=7, pid=0,
                device=0, stream=7, correlation=n + 1, grid=[4, 2, 1], block=[128, 1, 1],
                **{"registers per thread": 90, "shared memory": 4096, "External id": n + 2,
                   "est. achieved occupancy %": 40})
            add("cuda_runtime", "cudaMemcpyAsync", t + 900, 20, correlation=n + 2)
            add("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", t + 930, 300, tid=8, pid=0,
                device=0, stream=8, correlation=n + 2, bytes=1 << 20)
            add("cuda_runtime", "cudaStreamSynchronize", t + 1300, 500, correlation=n + 3)
        events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1,
                       "tid": 2, "ts": at + 300, "args": {
                           "Device Type": 1, "Device Id": 0, "Addr": 4096 + step, "Bytes": 2048,
                           "Total Allocated": 2048 * (step + 1), "Total Reserved": 1 << 20}})
    return {"schemaVersion": 1, "deviceProperties": [{
        "id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132,
        "totalGlobalMem": 150 << 30}], "baseTimeNanoseconds": 1700000000000000000,
            "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
            "traceEvents": events}


class Maker:
    def __init__(self, folder, build):
        self.folder = pathlib.Path(folder)
        self.build = pathlib.Path(build)
        self.found = []

    def place(self, path):
        to = self.folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        return to

    def add(self, path, kind, deep=False):
        self.found.append(Input(path, kind, deep))

    def fakes(self):
        self.place("fakes/x")
        run([self.build / "tests" / "save-fakes", self.folder / "fakes"])
        for path in sorted((self.folder / "fakes").iterdir()):
            # Between them they have rows for every command.
            kind = path.stem if path.stem in ("training", "gpu") else "fake"
            self.add(f"fakes/{path.name}", kind, True)

    def recordings(self):
        for meta in sorted((TESTS / "data").glob("*/run.json"), reverse=True):
            name = f"recordings/{meta.parent.name}.mscope"
            shutil.copytree(meta.parent, self.place(name))
            self.add(name, "recording", True)

    def recorded(self):
        """Recorded by the library of one of the builds, so that there are today's clocks and
        processes. The program is found by name, because the run keeps the command."""
        for name, steps, level in (("tiny", 6, "full"), ("tiny-again", 6, "full"),
                                   ("tiny-steps", 4, "steps")):
            path = self.place(f"recorded/{name}.mscope")
            run([self.build / "moescope", "run", "-q", "-o", path, "--level", level, "--", "tinymoe",
                 *TINY, "--steps", str(steps)], PATH=f"{self.build}:{os.environ['PATH']}")
            self.add(f"recorded/{name}.mscope", "tinymoe", name == "tiny")

    def written(self):
        """The files of other profilers that tests write by hand."""
        kineto, nsight = tests_module("test_import_kineto"), tests_module("test_import_nsight")
        memory, comm = tests_module("test_import_memory"), tests_module("test_comm")
        self.place("written/x")
        cwd = os.getcwd()
        os.chdir(self.folder / "written")
        try:
            text = json.dumps(operators()).encode()
            pathlib.Path("operators.json").write_bytes(text)
            pathlib.Path("operators.json.gz").write_bytes(gzip.compress(text, mtime=0))
            pathlib.Path("cut.json").write_bytes(text[:len(text) * 2 // 3])
            pathlib.Path("text.json").write_bytes(kineto.trace_text(300).encode())
            kineto.write_ranks("job", [0, 400, 150])
            comm.write_ranks()
            nsight.export("nsight.sqlite", 12)
            pathlib.Path("ncu.csv").write_text(nsight.NCU, encoding="utf-8")
            pathlib.Path("smi.csv").write_text(nsight.SMI, encoding="utf-8")
            memory.write(memory.small(), "small.pkl")
        finally:
            os.chdir(cwd)
        for name, kind, deep in (
                ("operators.json", "kineto", True), ("operators.json.gz", "gzip", False),
                ("cut.json", "cut", False), ("text.json", "kineto", False),
                ("ranks", "ranks", True), ("job", "ranks", False), ("nsight.sqlite", "nsight", True),
                ("ncu.csv", "ncu", True), ("smi.csv", "smi", True), ("small.pkl", "memory", True)):
            self.add(f"written/{name}", kind, deep)

    def planted(self):
        for i, (name, plant, verdict) in enumerate(tests_module("planted").PLANTED):
            path = f"planted/{i:02d}-{''.join(c if c.isalnum() else '-' for c in name)}"
            plant(str(self.place(path)))
            self.add(path, verdict or "no verdict", False)

    def fuzzed(self):
        for target in FUZZED:
            for kept in ("corpus", "regress"):
                folder = TESTS / "fuzz" / kept / target
                for path in sorted(folder.iterdir()) if folder.is_dir() else []:
                    data = path.read_bytes()
                    if target in CHOOSING and not path.suffix:
                        data = data[1:]
                    name = f"fuzz/{target}-{path.name}"
                    if target == "shard":
                        name += ".mst"
                    self.place(name).write_bytes(data)
                    self.add(name, f"fuzz {target}")

    def damaged(self):
        """A recording cut in the middle, and one with a changed byte."""
        source = TESTS / "data" / "h200-windows"
        data = next(source.glob("*.mst")).read_bytes()
        middle = len(data) // 2
        for name, damaged in (("cut", data[:middle]),
                              ("flipped", data[:middle] + bytes([data[middle] ^ 4]) +
                               data[middle + 1:])):
            path = self.place(f"damaged/{name}.mscope/0-423.mst")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(damaged)
            shutil.copy(source / "run.json", path.parent)
            self.add(f"damaged/{name}.mscope", "damaged")

    def experiments(self):
        made = tests_module("experiments")
        self.place("experiments/x")
        run([sys.executable, made.__file__, self.folder / "experiments"])

    def more(self, folders):
        """Folders that the caller names: each entry is a run or a file of another profiler."""
        for folder in folders:
            folder = pathlib.Path(folder).resolve()
            for path in sorted(folder.iterdir()):
                name = f"more/{path.name}"
                self.place(name).symlink_to(path)
                self.add(name, f"more {path.name}", True)


def make(folder, build, more):
    """The inputs, in a folder that may already hold them."""
    noted = pathlib.Path(folder) / "inputs.json"
    more = sorted(str(pathlib.Path(path).resolve()) for path in more)
    if noted.exists():
        known = json.loads(noted.read_text(encoding="utf-8"))
        if known["more"] != more:
            raise SystemExit(f"same.py: the inputs in {folder} were made with --inputs {known['more']}; "
                             "give the same, or another --work")
        return [Input(*words) for words in known["inputs"]]
    maker = Maker(folder, build)
    for step in (maker.fakes, maker.recordings, maker.recorded, maker.written, maker.planted,
                 maker.fuzzed, maker.damaged, maker.experiments):
        step()
    maker.more(more)
    found = [[i.path, i.kind, i.deep] for i in maker.found]
    noted.write_text(json.dumps({"more": more, "inputs": found}), encoding="utf-8")
    return maker.found


def few(inputs):
    """One of each kind; some that have rows for every command are deep."""
    kinds = {}
    for i in inputs:
        kinds.setdefault(i.kind, i)
    return [Input(i.path, i.kind, i.kind in DEEP_OF_FEW) for i in kinds.values()]


def digest(folder, pattern="*"):
    """Of all files in a folder."""
    total = hashlib.sha256()
    for directory, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        for name in fnmatch.filter(sorted(files), pattern):
            path = os.path.join(directory, name)
            total.update(path.encode())
            with open(path, "rb") as file:
                total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()
