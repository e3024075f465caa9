#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A full disk, from the start and in the middle, and a directory that cannot be written: the
program ends as it would without a profiler, and the run says what is missing."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from fault import (MOESCOPE, PATIENCE_S, VICTIM, check, environment, finish, read, report, skip,
                   victim_without_profiler)

EXPECTED = victim_without_profiler()
ROUNDS = 80000 # numbers that the victim records


def loss_records(tables):
    """Records that the run says were lost."""
    loss = tables["loss"]
    return sum(loss[k] for k in loss if k.startswith("dropped_") and k != "dropped_names")



def victim_problems(done):
    problems = []
    if done.returncode != 7:
        problems.append(f"exit status {done.returncode}: {done.stderr.decode().strip()[:300]}")
    if done.stdout != EXPECTED:
        problems.append(f"output {done.stdout!r}")
    return problems


def run_victim(run, *arguments, **extra):
    return subprocess.run([VICTIM, *arguments], env=environment(MOESCOPE_RUN=run, **extra),
                          capture_output=True, timeout=PATIENCE_S)


@contextlib.contextmanager
def small_disk(megabytes):
    folder = tempfile.mkdtemp(prefix="moescope-disk-")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", folder],
                          capture_output=True, check=False)
    try:
        yield folder if done.returncode == 0 else None
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


def fill(folder, leave_bytes=0):
    """Takes all of the disk but so much."""
    path = os.path.join(folder, "filler")
    with open(path, "wb", buffering=0) as f:
        with contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 65536)
        with contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 512)
        size = f.tell()
        if leave_bytes:
            f.truncate(max(0, size - leave_bytes))
    return path


def run_elsewhere(run, why):
    """`moescope run` into a place that takes nothing: it says why, puts the run elsewhere, and
    leaves nothing here. Problems with that."""
    with tempfile.TemporaryDirectory(prefix="moescope-elsewhere-") as elsewhere:
        done = subprocess.run([MOESCOPE, "run", "-o", run, "--", VICTIM],
                              env=environment(TMPDIR=elsewhere), capture_output=True, timeout=PATIENCE_S)
        problems = victim_problems(done)
        if why not in done.stderr:
            problems.append(f"does not say why: {done.stderr.decode().strip()[:300]}")
        if os.path.exists(run):
            problems.append("half a run directory is left behind")
        made = os.listdir(elsewhere)
        if len(made) != 1:
            return problems + [f"made elsewhere: {made}"]
        tables, found = read(os.path.join(elsewhere, made[0]))
        problems += found
        if tables and sum(t["n"] for t in tables["threads"]) + loss_records(tables) < ROUNDS:
            problems.append(f"records are missing: {tables}")
        return problems


def full_at_start():
    with small_disk(2) as folder:
        if not folder:
            skip("disk full at start", "cannot mount a tmpfs (not root)")
            return
        run = os.path.join(folder, "run.mscope")
        os.mkdir(run)
        fill(folder)
        check("disk full at start", victim_problems(run_victim(run)))
        check("run on a full disk", run_elsewhere(os.path.join(folder, "new.mscope"),
                                                  b"No space left"))


def full_in_the_middle(name, megabytes, leave_bytes, level):
    """The disk has room for the beginning only."""
    with small_disk(megabytes) as folder:
        if not folder:
            skip(name, "cannot mount a tmpfs (not root)")
            return
        run = os.path.join(folder, "run.mscope")
        os.mkdir(run)
        fill(folder, leave_bytes)
        problems = victim_problems(run_victim(run, MOESCOPE_LEVEL=level, MOESCOPE_RING_KB=64))
        shards = [f for f in os.listdir(run) if f.endswith(".mst")]
        if shards:
            tables, found = read(run)
            told, more = report(run)
            problems += found + more
            if tables and told and any(told["loss"][k] != tables["loss"][k] for k in told["loss"]):
                problems.append(f"the report says {told['loss']}, the tables {tables['loss']}")
            # Either they are all there, or something says not.
            if tables:
                missing = ROUNDS - sum(t["n"] for t in tables["threads"])
                if loss_records(tables) < missing:
                    problems.append(f"{missing} numbers are missing, {loss_records(tables)} "
                                    f"records stated as lost: {tables['loss']}")
                if any(t["twice"] for t in tables["threads"]):
                    problems.append("numbers twice")
        check(name, problems)


def disk_freed_again():
    """Full for a while, then not: what was in the buffers is written after all."""
    with small_disk(8) as folder:
        if not folder:
            skip("disk freed again", "cannot mount a tmpfs (not root)")
            return
        run = os.path.join(folder, "run.mscope")
        os.mkdir(run)
        filler = fill(folder, 800 << 10) # room for the buffers, hardly any for the shard
        told_read, told_write = os.pipe()
        end_read, end_write = os.pipe()
        process = subprocess.Popen([VICTIM, str(PATIENCE_S)], env=environment(
            MOESCOPE_RUN=run, MOESCOPE_RING_KB=64, VICTIM_FD=told_write, VICTIM_END_FD=end_read),
            pass_fds=(told_write, end_read), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(told_write)
        os.close(end_read)
        while os.read(told_read, 1 << 16): # until the run says that the disk is full
            now, _ = read(run)
            if now and now["loss"]["write_errors"]:
                break
        os.unlink(filler)
        os.close(end_write)
        while os.read(told_read, 1 << 16):
            pass
        os.close(told_read)
        process.communicate(timeout=PATIENCE_S)
        tables, problems = read(run)
        if process.returncode != 7:
            problems.append(f"exit status {process.returncode}")
        if tables:
            if tables["closed"] != 1:
                problems.append(f"not closed: {tables}")
            if not tables["loss"]["write_errors"]:
                problems.append("the disk was never full, or nothing says so")
            for t in tables["threads"]:
                if t["twice"]:
                    problems.append(f"numbers twice: {t}")
        check("disk freed again", problems)


def read_only_directory():
    """As root, permissions do not stop anybody: a read-only mount does."""
    with small_disk(2) as folder:
        if not folder:
            skip("read-only directory", "cannot mount a tmpfs (not root)")
            return
        run = os.path.join(folder, "run.mscope")
        os.mkdir(run)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        check("read-only directory", victim_problems(run_victim(run)))
        check("run on a read-only disk", run_elsewhere(os.path.join(folder, "new.mscope"),
                                                       b"Read-only file system"))


def missing_directory():
    folder = tempfile.mkdtemp(prefix="moescope-disk-")
    try:
        check("missing run directory",
              victim_problems(run_victim(os.path.join(folder, "absent.mscope"))))
    finally:
        shutil.rmtree(folder)


full_at_start()
for kilobytes in (4, 64, 128, 300, 600, 1000, 1500):
    full_in_the_middle(f"disk full after {kilobytes} KB", 3, kilobytes << 10, "trace")
full_in_the_middle("disk full after 200 KB, level full", 3, 200 << 10, "full")
disk_freed_again()
read_only_directory()
missing_directory()
finish()
