# SPDX-License-Identifier: Apache-2.0
"""Input that is unusual or made to do harm: the tool answers or refuses, and never hangs."""

import json
import pathlib
import resource
import shutil

from cli import check, equal, main, moescope, one_sentence, record, test


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def shards_of(run):
    return sorted(pathlib.Path(run).glob("*.mst"))


def many_shards(run, n):
    """Copies of the one shard of a run, as of so many processes."""
    shard = shards_of(run)[0]
    for i in range(1, n):
        shutil.copyfile(shard, pathlib.Path(run) / f"{i}-{100000 + i}.mst")


@test
def more_shards_than_descriptors():
    record("a.mscope")
    many_shards("a.mscope", 200)
    for command in ("report", "steps", "ops"):
        done = moescope(command, "a.mscope", preexec_fn=few_descriptors)
        equal(done.status, 0, done.err)
        check("cannot open" not in done.out, done.out[:500])
    done = moescope("steps", "a.mscope", "--json", preexec_fn=few_descriptors)
    run = json.loads(done.out)
    equal(len(run["rows"]), 200 * 6)
    check(not any(run["loss"].values()), run["loss"])


@test
def notes_of_one_kind_are_summed():
    record("a.mscope")
    for i in range(300):
        pathlib.Path("a.mscope", f"{i}-{100000 + i}.mst").write_bytes(b"no shard")
    done = moescope("steps", "a.mscope")
    equal(done.status, 0, done.err)
    equal(done.out.count("not a moescope shard"), 8, done.out[:2000])
    check("and 292 more processes" in done.out, done.out[:4000])


if __name__ == "__main__":
    main()
