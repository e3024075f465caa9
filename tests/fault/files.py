#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that close, replace and reuse descriptors, that have a limit on file sizes, and whose run
is cut while it is recorded: status, output and files are those of the program alone."""

import glob
import os
import resource
import shutil
import subprocess
import tempfile

from fault import PATIENCE_S, built, check, environment, finish, read, skip

HOSTILE = built("fault-hostile")


class Program:
    """fault-hostile in a folder of its own, with or without a profiler."""

    def __init__(self, what, profiled, shared_table, closed=(), **limits):
        self.folder = tempfile.mkdtemp(prefix="moescope-files-")
        self.run = os.path.join(self.folder, "run.mscope")
        os.mkdir(self.run)
        env = environment()
        if profiled:
            env["HOSTILE_RUN" if shared_table else "MOESCOPE_RUN"] = self.run
        command = [HOSTILE] + ["--shared-table"] * shared_table + [what]
        if closed:
            closing = " ".join(f"{n}>&-" for n in closed)
            command = ["/bin/sh", "-c", f"exec \"$@\" {closing}", "sh"] + command

        def prepare():
            for name, value in limits.items():
                resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))

        self.process = subprocess.Popen(command, env=env, cwd=self.folder, preexec_fn=prepare,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def result(self, stdin=None):
        """Status, output, errors and own files."""
        hangs = False
        try:
            out, err = self.process.communicate(stdin, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            hangs = True
        files = {}
        for path in sorted(glob.glob(os.path.join(self.folder, "own-*"))):
            with open(path, "rb") as f:
                files[os.path.basename(path)] = f.read()
        return {"status": "hangs" if hangs else self.process.returncode, "output": out,
                "errors": err, "files": files}

    def files(self, suffix):
        return glob.glob(os.path.join(self.run, "*" + suffix))

    def remove(self):
        shutil.rmtree(self.folder)


def differences(bare, profiled):
    problems = []
    for what in ("status", "output", "errors"):
        if profiled[what] != bare[what]:
            problems.append(f"{what} {profiled[what]!r}, alone {bare[what]!r}")
    for name in sorted(set(bare["files"]) | set(profiled["files"])):
        if bare["files"].get(name) != profiled["files"].get(name):
            problems.append(f"its file {name} differs: {profiled['files'].get(name, b'')[:60]!r}")
    return problems


def compare(name, what, closed=(), status=7, **limits):
    """Runs it without and with the profiler, and with it in a table that all share."""
    program = Program(what, False, False, closed, **limits)
    bare = program.result()
    program.remove()
    for shared in (False, True):
        program = Program(what, True, shared, closed, **limits)
        problems = differences(bare, program.result())
        if bare["status"] != status:
            problems.append(f"alone it ends with {bare['status']}")
        if not limits and not program.files(".mst"):
            problems.append("nothing was recorded")
        check(f"{name}{', shared table' * shared}", problems)
        program.remove()


def recorded_to_the_end():
    """With a table of its own the profiler does not even notice."""
    program = Program("closefrom", True, False)
    program.result()
    tables, problems = read(program.run)
    if tables and tables["closed"] != 1:
        problems.append(f"the shard is not closed: {tables}")
    check("closefrom, recorded to the end", problems)
    program.remove()


def buffers_stay_after_closefrom():
    """In a shared table the session ends with its descriptors, and what it had is salvaged."""
    program = Program("closefrom", True, True)
    program.result()
    if not program.files(".ring"):
        check("closefrom, shared table, salvage", ["no buffer file is left"])
    else:
        tables, problems = read(program.run)
        if tables and not tables["loss"]["salvaged"]:
            problems.append(f"nothing was salvaged: {tables['loss']}")
        check("closefrom, shared table, salvage", problems)
    program.remove()


def cut(suffix, size):
    """A file of the run is cut while threads record into it."""
    for shared in (False, True):
        name = f"{suffix} cut to {size} bytes{', shared table' * shared}"
        program = Program("records-on", True, shared)
        first = program.process.stdout.readline()
        paths = program.files(suffix)
        for path in paths:
            os.truncate(path, size)
        got = program.result(b"\n")
        problems = []
        if len(paths) != 1:
            problems.append(f"files of the run: {paths}")
        if (got["status"], first + got["output"], got["errors"]) != (
                7, b"recording\nrecords-on: done\n", b""):
            problems.append(f"{got['status']}, {first + got['output']!r}, {got['errors']!r}")
        if suffix == ".ring":
            tables, found = read(program.run)
            problems += found
            if tables and not (tables["closed"] == 1 and tables["loss"]["corrupt_chunks"]):
                problems.append(f"the run does not say so: {tables}")
        check(name, problems)
        program.remove()


def equal_pids():
    """Processes of the same PID in namespaces of their own, as in containers: each has a shard."""
    folder = tempfile.mkdtemp(prefix="moescope-files-")
    run = os.path.join(folder, "run.mscope")
    os.mkdir(run)
    n = 40
    # Each waits for the end of its standard input, so that all begin at once.
    command = ["unshare", "--pid", "--fork", "/bin/sh", "-c", f"read gate; exec {HOSTILE} pipes"]
    if subprocess.run(command, stdin=subprocess.DEVNULL, env=environment(), cwd=folder,
                      capture_output=True, check=False).returncode != 7:
        skip("equal PIDs", "no PID namespaces to be had (not root)")
        shutil.rmtree(folder)
        return
    gate_read, gate_write = os.pipe()
    processes = [subprocess.Popen(command, env=environment(MOESCOPE_RUN=run), cwd=folder,
                                  stdin=gate_read, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) for _ in range(n)]
    os.close(gate_read)
    os.close(gate_write)
    statuses = []
    for process in processes:
        process.communicate(timeout=PATIENCE_S)
        statuses.append(process.returncode)
    shards = [f for f in os.listdir(run) if f.endswith(".mst")]
    problems = []
    if statuses != [7] * n:
        problems.append(f"statuses {statuses}")
    if len(shards) != n:
        problems.append(f"{len(shards)} shards of {n} processes")
    check("equal PIDs", problems)
    shutil.rmtree(folder)


compare("nothing special", "nothing")
compare("closefrom", "closefrom")
compare("dup2 over low numbers", "dup2-low")
compare("dup2 over all numbers", "dup2-all")
compare("sockets after closefrom", "sockets")
compare("the end of a pipe", "pipes")
compare("a forked child", "children")
for numbers in ((1,), (0, 1), (0, 1, 2)):
    compare(f"closed {numbers}", "nothing", numbers)
compare("few descriptors", "nothing", NOFILE=20)
compare("hardly any descriptors", "pipes", NOFILE=6)
compare("file size limits while recording", "limited")
for size in (0, 4095, 5000, 40000, 1 << 20):
    compare(f"file size limit {size}", "pipes", FSIZE=size)
compare("a SIGBUS of its own", "bus-default", status=-7)
compare("a SIGBUS that was sent", "bus-sent", status=-7)
compare("a SIGBUS that it handles", "bus-handled", status=9)
recorded_to_the_end()
buffers_stay_after_closefrom()
for cut_size in (0, 5000, 100000):
    cut(".ring", cut_size)
for cut_size in (0, 100, 5000):
    cut(".mst", cut_size)
equal_pids()
finish()
