#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that a change has kept all behaviour: same.py OLD NEW.

OLD and NEW are build folders, or revisions, which it builds. Both run every command with every
form, width and option over the same inputs (same_cases.py, same_inputs.py); their output, exit
status and written files are compared byte for byte. Inherent differences are avoided: both run one
after the other in the same folder with the same paths, in a fixed environment. MASKS covers the
rest. Ends with "N outputs compared, N differ", and status 1 if one does.

--work DIR keeps the inputs and the findings in DIR. Called again with it, it resumes where it
stopped, and does not rerun a program that it has already run.
"""

import argparse
import fnmatch
import gzip
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

import same_bench
import same_inputs
from same_cases import Cases, commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("moescope", "libmoescope.so", "libmoescope-heap.so", "tinymoe", "moescope-load", "moescope-calibrate")
# Of all that a revision can build.
NEEDED = re.compile("|".join(map(re.escape, PROGRAMS)) + r"|tests/save-fakes|bench/bench-[\w-]+|docs/man/.*"
                    r"|[\w.]*moescope(\.bash|\.fish)?")
PATIENCE_S = 600
SIDES = ("old", "new")

# What may differ between the two, and its replacement. (cases, expression, replacement, why)
MASKS = [
    ("moescope doctor*", rb"@BUILD@", b"BUILD", "where the program's own parts lie"),
    ("*", rb"@CWD@", b"CWD", "the folder of a case, which has a number"),
    ("moescope doctor*", rb"\d[\d.]* [kMGT]?B (available|free)", rb"\1", "free memory and disk"),
    ("moescope doctor*", rb'("(free|available)_bytes": )\d+', rb"\1", "free memory and disk"),
    ("moescope doctor*", rb"read back equal, [\d.]+ ns each", b"read back equal", "a measurement"),
    ("moescope doctor*", rb'("range_ns": )[\d.]+', rb"\1", "a measurement"),
]
# Run on one processor, because it depends on which of its threads comes first.
PINNED = [
    ("moescope import*", "names get their numbers in the order in which threads meet them"),
]
# Options of today's machine are the same for both; these come from the caller's environment.
KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")


def say(text):
    print(text, flush=True)


# ---- the two programs

def cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "moescope" / "same"


def built(word, jobs):
    """The build folder that a word names: itself, or that of a revision, built in the cache."""
    path = pathlib.Path(word).resolve()
    if (path / "moescope").exists():
        return path
    revision = subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "-q", f"{word}^{{commit}}"],
                              stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    if not revision:
        raise SystemExit(f"same.py: {word} is neither a build folder (it has no moescope) nor a revision")
    source = cache() / revision[:16]
    build = source / "build"
    if not (build / "complete").exists():
        say(f"building {word} in {source}")
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir(parents=True)
        archive = subprocess.Popen(["git", "-C", ROOT, "archive", revision], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", source], stdin=archive.stdout, check=True)
        if archive.wait() != 0:
            raise SystemExit(f"same.py: git archive {revision} failed")
        subprocess.run(["meson", "setup", build, source], stdout=subprocess.DEVNULL, check=True)
        listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], text=True, check=True,
                                stdout=subprocess.PIPE).stdout
        wanted = [name for name in re.findall(r"^(\S+): ", listed, re.M) if NEEDED.fullmatch(name)]
        subprocess.run(["ninja", "-C", build, f"-j{jobs}", *wanted], stdout=subprocess.DEVNULL, check=True)
        (build / "complete").touch()
    return build


def identity(build):
    """Identifies the programs in a build: what they are, not where."""
    total = hashlib.sha256()
    for name in PROGRAMS:
        path = build / name
        total.update(name.encode() + (path.read_bytes() if path.exists() else b""))
    return total.hexdigest()


def staged(builds, work):
    """Copies of the programs in folders with names of equal length: lines break by length."""
    for side, build in zip(SIDES, builds):
        folder = work / side
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in PROGRAMS:
            if (build / name).exists():
                shutil.copy(build / name, folder)
        yield folder


def environment(work):
    env = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    env.update(HOME=str(work / "home"), TMPDIR=str(work / "tmp"), LC_ALL="C.UTF-8", TZ="UTC",
               XDG_CACHE_HOME=str(work / "home" / "cache"))
    return env


# ---- one case

def masked(name, data, build, cwd):
    places = {rb"@BUILD@": re.escape(str(build).encode()), rb"@CWD@": re.escape(str(cwd).encode())}
    for cases, expression, replacement, _why in MASKS:
        if fnmatch.fnmatchcase(name, cases):
            data = re.sub(places.get(expression, expression), replacement, data)
    return data


def run_line(build, line, stdin, cwd, env):
    words = [str(build / line[0]), *line[1:]]
    # Programs run under moescope are in the build too.
    words = [str(build / "tinymoe") if word == "tinymoe" else word for word in words]
    try:
        done = subprocess.run(words, input=stdin.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=cwd, env=env, timeout=PATIENCE_S,
                              check=False)
    except subprocess.TimeoutExpired:
        return b"", b"", "no end in %d s" % PATIENCE_S
    return done.stdout, done.stderr, str(done.returncode)


def run_case(build, case, cwd, env):
    """Everything that a case produces: {part: bytes}."""
    shutil.rmtree(cwd, ignore_errors=True)
    cwd.mkdir()
    (cwd / "in").symlink_to("../inputs")
    found = {}
    for number, line in enumerate(case.lines):
        hidden = line[0] == "-"
        out, err, status = run_line(build, line[hidden:], case.stdin, cwd, env)
        mark = f"{number}." if len(case.lines) > 1 else ""
        found[f"{mark}status"] = status.encode()
        if not hidden:
            found[f"{mark}stdout"], found[f"{mark}stderr"] = out, err
    for directory, folders, files in os.walk(cwd) if case.files else ():
        for name in folders + files:
            path = os.path.join(directory, name)
            part = "file " + os.path.relpath(path, cwd)
            if os.path.islink(path):
                found[part] = os.readlink(path).encode()
            elif os.path.isfile(path):
                found[part] = pathlib.Path(path).read_bytes()
            else:
                found[part] = b"folder"
    name = case.name()
    return {part: masked(name, data, build, cwd) for part, data in found.items()}


def summed(found):
    total = hashlib.sha256()
    for part, data in sorted(found.items()):
        total.update(f"{part}\0{len(data)}\0".encode() + data)
    return total.hexdigest()


def text_of(data):
    if data[:2] == b"\x1f\x8b":
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            pass
    return data


def shown(line):
    return line[:300].decode(errors="backslashreplace").replace("\0", "\\0")


def first_difference(old, new):
    """Where two parts first differ, as lines to show."""
    if old is None or new is None:
        return [f"  {'only new' if old is None else 'only old'} has it"]
    packed = " (after decompression)" if text_of(old) is not old and text_of(new) is not new else ""
    if packed:
        old, new = text_of(old), text_of(new)
        if old == new:
            return ["  compressed in another way, with the same content"]
    olds, news = old.split(b"\n"), new.split(b"\n")
    at = next((i for i, (a, b) in enumerate(zip(olds, news)) if a != b), min(len(olds), len(news)))
    sides = [lines[at] if at < len(lines) else None for lines in (olds, news)]
    column = 0
    if None not in sides:
        column = next((i for i, (a, b) in enumerate(zip(*sides)) if a != b), min(map(len, sides)))
        # For a long line, the part that matters.
        sides = [line[max(0, column - 60):column + 140] for line in sides]
    return [f"  line {at + 1}, column {column + 1}{packed}",
            *(f"  {name}: " + ("(ends)" if line is None else shown(line))
              for name, line in zip(SIDES, sides))]


class Worker:
    """What a process needs to compare cases; set once in each."""

    here = None

    def __init__(self, work, builds, known):
        self.work = work
        self.builds = builds
        self.known = known
        self.cwd = work / f"case-{os.getpid():08d}"
        self.env = environment(work)
        self.processors = sorted(os.sched_getaffinity(0))

    @classmethod
    def start(cls, *args):
        cls.here = cls(*args)

    def compare(self, number, case):
        """(number, [digest of old, of new], what differs as lines)."""
        name = case.name()
        pinned = case.files and any(fnmatch.fnmatchcase(name, cases) for cases, _why in PINNED)
        mine = self.processors[os.getpid() % len(self.processors)]
        os.sched_setaffinity(0, {mine} if pinned else self.processors)
        digests, found = [], {}
        for side, build, known in zip(SIDES, self.builds, self.known):
            digest = known.get(name)
            if digest is None:
                found[side] = run_case(build, case, self.cwd, self.env)
                digest = summed(found[side])
            digests.append(digest)
        lines = []
        if digests[0] != digests[1]:
            for side, build in zip(SIDES, self.builds):
                if side not in found:
                    found[side] = run_case(build, case, self.cwd, self.env)
            lines = self.differences(number, case, found)
            digests = [summed(found[side]) for side in SIDES]
        return number, digests, lines

    def differences(self, number, case, found):
        lines = []
        kept = self.work / "differ" / f"{number:05d}"
        for part in sorted(found["old"].keys() | found["new"].keys()):
            sides = [found[side].get(part) for side in SIDES]
            if sides[0] == sides[1]:
                continue
            lines += [f" {part}:", *first_difference(*sides)]
            for side, data in zip(SIDES, sides):
                if data is not None:
                    path = kept / side / part.replace("/", "|")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
        if lines:
            lines.append(f" again: cd {self.work / 'again'} && PATH={self.builds[1]}:$PATH "
                         f"TZ=UTC {case.name()}")
            lines.append(f" both: {kept}")
        return lines


def compare_one(job):
    return Worker.here.compare(*job)


# ---- all cases

def files_of_builds(builds):
    """What a build itself makes: man pages and completions, as a case."""
    found = []
    for build in builds:
        paths = [*build.glob("docs/man/*.1"), *build.glob("*moescope*.bash"),
                 *build.glob("*moescope.fish"), *build.glob("_moescope")]
        found.append({"file " + str(p.relative_to(build)): p.read_bytes() for p in sorted(paths)})
    return found


class Journal:
    """The findings of each side, in a file that is read on resuming."""

    def __init__(self, path, key):
        self.known = {}
        if path.exists():
            with open(path, encoding="utf-8") as file:
                for line in file:
                    # The last line may be cut.
                    if line.endswith("\n"):
                        of, digest, name = line.rstrip("\n").split(" ", 2)
                        if of == key:
                            self.known[json.loads(name)] = digest
        self.key = key
        self.file = open(path, "a", encoding="utf-8")

    def note(self, name, digest):
        if self.known.get(name) != digest:
            self.known[name] = digest
            self.file.write(f"{self.key} {digest} {json.dumps(name)}\n")
            self.file.flush()


def side_files(folder, inputs):
    """Files that options name; queries are added when the tables are known."""
    (folder / "classes.tsv").write_text("mine\tgemm\n", encoding="utf-8")
    (folder / "experiment.yaml").write_text("batch_size: 4\nmax_tokens: 7\nrepeats: 2\n",
                                            encoding="utf-8")
    (folder / "sweep.yaml").write_text(
        "batch_size: 4\nparameter_sweep:\n  max_tokens: [5, 6]\n  batch_size: [1, 2]\n",
        encoding="utf-8")
    return [f"in/{p.relative_to(folder)}" for i in inputs
            for p in sorted((folder / i.path).rglob("*.mst") if (folder / i.path).is_dir()
                            else (folder / i.path).parent.glob((folder / i.path).name))
            if p.suffix == ".mst"]


def queries(tables):
    """Every table, whole and through what is pushed down to it."""
    lines = [f"select '{t}' as tab, t.* from {t} t;" for t in tables]
    lines += ["select k.short_name, count(*), sum(k.duration_ns) from kernels k join steps s on "
              "k.step = s.step group by 1 order by 3 desc, 1;",
              "select name, duration_ns from kernels where duration_ns > 1000 order by start_ns "
              "limit 7;",
              "select name from ranges where start_ns between 1000000 and 5000000 order by name;",
              "select r.name, o.name from ranges r join operations o on o.thread = r.thread and "
              "o.start_ns between r.start_ns and r.end_ns order by 1, 2, o.start_ns limit 20;"]
    return "\n".join(lines) + "\n"


def prepare(args, builds, work):
    folder = work / "inputs"
    for name in ("inputs", "home", "tmp", "again"):
        (work / name).mkdir(parents=True, exist_ok=True)
    maker = next((b for b in builds if (b / "tests" / "save-fakes").exists()), None)
    if not maker:
        raise SystemExit("same.py: neither build has tests/save-fakes, which makes inputs; build all of "
                         "the newer one")
    inputs = same_inputs.make(folder, maker, args.inputs)
    if not (work / "again" / "in").is_symlink():
        (work / "again" / "in").symlink_to("../inputs")
    if args.quick:
        inputs = same_inputs.few(inputs)
    program, env = [str(builds[0] / "moescope")], environment(work)

    def ask(*words):
        return subprocess.run([*program, *words], stdout=subprocess.PIPE, text=True, env=env,
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              cwd=work / "again", check=False).stdout

    shards = side_files(folder, inputs)
    cases = Cases(commands(program), inputs, shards, ask, args.quick)
    (folder / "queries.sql").write_text(queries(cases.tables()), encoding="utf-8")
    return cases


def more_in_new(builds, found):
    """Commands and options that only NEW has: nothing to compare them with."""
    new = commands([str(builds[1] / "moescope")])
    for name, command in new.items():
        if name not in found:
            yield name
        else:
            yield from (f"{name} --{o}" for o in command.options if o not in found[name].options)


def compare_all(args, builds, work):
    cases = prepare(args, builds, work)
    wanted, names = [], set()
    for case in cases.all():
        name = case.name()
        if name not in names and (not args.only or re.search(args.only, name)):
            names.add(name)
            wanted.append(case)
    if args.list:
        for case in wanted:
            say(case.name())
        return 0
    before = same_inputs.digest(work / "inputs")
    # Findings are valid for the program, the inputs and what we do with them.
    rules = same_inputs.digest(ROOT / "tools", "same*.py")
    journals = [Journal(work / f"{side}.journal", "-".join((identity(build)[:16], before[:16], rules[:16])))
                for side, build in zip(SIDES, builds)]
    start = time.monotonic()
    say(f"{len(wanted)} cases over {len(cases.inputs)} inputs, {args.jobs} at a time, in {work}")
    differ = 0
    with multiprocessing.Pool(args.jobs, Worker.start,
                              (work, list(staged(builds, work)), [j.known for j in journals])) as pool:
        jobs = pool.imap_unordered(compare_one, enumerate(wanted), chunksize=4)
        for done, (number, digests, lines) in enumerate(jobs, 1):
            name = wanted[number].name()
            for journal, digest in zip(journals, digests):
                journal.note(name, digest)
            if lines:
                differ += 1
                say("\n".join([f"DIFFERS {name}", *lines]))
            if done % 1000 == 0:
                say(f"  {done} of {len(wanted)}, {time.monotonic() - start:.0f} s")
        # Their times count when they have ended.
        pool.close()
        pool.join()
    compared = len(wanted)
    if not args.only:
        compared += 1
        old, new = files_of_builds(builds)
        for part in sorted(old.keys() | new.keys()):
            if old.get(part) != new.get(part):
                differ += 1
                say("\n".join([f"DIFFERS {part} of the build",
                               *first_difference(old.get(part), new.get(part))]))
    if same_inputs.digest(work / "inputs") != before:
        differ += 1
        say("DIFFERS the inputs are not what they were: a command has written to them")
    for what in more_in_new(builds, cases.commands):
        say(f"only new has {what}: not compared")
    for what, why in cases.left_out.items():
        if args.catalogue or "VALUES" in why:
            say(f"left out: {what}: {why}")
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"{time.monotonic() - start:.0f} s, {spent.ru_utime + spent.ru_stime:.0f} s of them computing")
    say(f"{compared} outputs compared, {differ} differ")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="a build folder or a revision")
    parser.add_argument("new", metavar="NEW", help="likewise")
    parser.add_argument("--quick", action="store_true", help="one input of each kind")
    parser.add_argument("--only", metavar="REGEX", help="cases whose command line matches")
    parser.add_argument("--inputs", metavar="DIR", action="append", default=[],
                        help="a folder with more runs and files; may be given several times")
    parser.add_argument("--work", metavar="DIR", help="keep inputs and what was found here; go on there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--list", action="store_true", help="print the cases, run none")
    parser.add_argument("--catalogue", action="store_true", help="say what is left out, and why")
    parser.add_argument("--bench", action="store_true",
                        help="compare speed and memory instead, old and new in turns")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="of --bench")
    args = parser.parse_args()
    builds = [built(word, args.jobs) for word in (args.old, args.new)]
    work = pathlib.Path(args.work or tempfile.mkdtemp(prefix="moescope-same-")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    status = 1
    try:
        if args.bench:
            status = same_bench.bench(builds, work, args.rounds, environment(work), args.only)
        else:
            status = compare_all(args, builds, work)
    finally:
        for left in work.glob("case-*"):
            shutil.rmtree(left, ignore_errors=True)
        if not args.work and status == 0:
            shutil.rmtree(work, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
