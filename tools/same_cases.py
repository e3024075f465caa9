# SPDX-License-Identifier: Apache-2.0
"""The command lines that same.py compares.

Commands, their options and the values of options come from the program's own completion script, so
a new command is here the day it is added. Tables supply what the program cannot: values for options
that take any, and what goes with what. `Cases.left_out` names options without a value in them, and
commands that cannot be compared.
"""

import itertools
import json
import re
import shlex
import subprocess

# Values of options that take any, by command and option, or by option alone.
VALUES = {
    "steps": ["1:2", "2:", ":1"],
    "at": ["1ms", "20s"],
    "step": ["1:2"],
    "layer": ["0", "1"],
    "range": ["forward"],
    "limit": ["0", "3"],
    "classes": ["in/classes.tsv"],
    "capacity-factor": ["1,1.5,2"],
    "tile-rows": ["16"],
    "report csv": ["book"],
    "report limit": ["2"],
    "plots": ["pictures"],
    "html": ["page.html"],
    "report plot-format": ["both"],
    "report plot-theme": ["both"],
    "plot-scale": ["0.5"],
    "scale": ["0.5"],
    "group": ["one={0},{1}"],
    "fail-if": ["step_time > 5%", "run_time > 1ms", "kernel_count > 1000000"],
    "sql file": ["in/queries.sql"],
    "columns": ["index,timestamp,power.draw"],
    "query-gpu": ["name,memory.used"],
    "interval": ["500ms"],
    "height": ["40"],
    "loop": ["2s"],
    "count": ["2"],
    "device": ["0"],
    "id": ["1"],
    "format": ["csv,noheader,nounits"],
    "output": ["out"],
    "filename": ["out"],
    # Of experiments: what a parameter reports after it was given.
    "bench config": ["in/experiment.yaml"],
    "sweep config": ["in/sweep.yaml"],
    "parameter-sweep": ["batch_size:1,2,4;max_tokens:100,200"],
    "gpus": ["0,1"],
    "launcher-args": ["--mem=1G"],
    "server-args": ["--port 1"],
    "environment": ["A=1"],
    "trace-options": ["level=full"],
    "nsys-options": ["level=full"],
    "counter-options": ["set=full"],
    "ncu-options": ["set=full"],
    "goodput": ["ttft:200 tpot:50"],
    "prompt-tokens": ["100", "uniform:10:20"],
    "output-tokens": ["5"],
    "url": ["http://127.0.0.1:1"],
    "arrival-trace": ["in/none"],
    "engine": ["vllm", "nosuch"],
    "cancel-pct": ["10"],
    "ramp-start": ["1"],
    "ramp-end": ["2"],
}
TEXTS = ("model", "model-path", "model-name", "prompt", "base-prompt", "command", "api-key",
         "experiment-name", "output-dir")
NUMBERS = ("max-tokens", "batch-size", "tensor-parallel-size", "pipeline-parallel-size",
           "data-parallel-size", "temperature", "threads", "repeats",
           "warmup", "seed", "time-limit-s", "price-per-hour", "requests", "concurrency",
           "request-rate", "burstiness", "request-timeout-s", "cancel-after-s", "nodes", "processes")
VALUES.update({name: ["some thing"] for name in TEXTS})
VALUES.update({name: ["3"] for name in NUMBERS})
VALUES.update({f"{command} steps": ["3"] for command in ("bench", "sweep")})

# Options that mean nothing without others.
WITH = {"report plot-format": ["--plots", "pictures"], "report plot-theme": ["--plots", "pictures"],
        "report plot-scale": ["--plots", "pictures"], "top height": ["--once"], "top interval": ["--once"]}
# Options of form, not of content.
FORMS = ("json", "csv", "markdown", "width", "color")
WIDTHS = ("60", "80", "120")
# What selects part of a run, and what shapes a table.
SELECTION = ("steps", "layer", "phase", "range")
SHAPE = ("by", "by-shape", "by-stack", "by-thread", "by-wait", "columns")
# Options whose answer is another text: at all widths even for a quick look.
TEXTS_OF_THEIR_OWN = ("dashboard", "layer", "by", "by-stack", "by-wait", "columns", "limit")
# Drawing all takes a second: two inputs are enough, because `plot` draws each with every input.
COSTLY = ("report plots", "report plot-format", "report plot-theme", "report plot-scale")

# Words that keep a command from its main work: measuring.
HARMLESS = {"bench": ["--list-parameters", "--json"], "sweep": ["--list", "--preset", "quick"],
            "demo": ["--nosuch"], "doctor": ["--nosuch"]}

# What cannot be compared, and why.
LEFT_OUT = {
    "sweep --resume": "goes on with points that measure",
    "demo": "trains for seconds and shows its times; `run` with tinymoe stands for it",
    "serve": "answers until it is ended; its tests compare that with what the commands print",
    "attach": "looks at a process of the moment",
    "detach": "an attach that goes on",
    "mark": "a run that is being recorded",
    "run --calls": "times of the moment",
    "run --calls-longer-than": "means nothing without --calls",
    "run --stacks": "looks at the moment",
    "run --stacks-rate": "means nothing without --stacks",
    "run --counters": "reads GPUs",
    "run --counters-interval": "means nothing without --counters",
    "run --launch-skip": "means nothing without --counters",
    "run --launch-count": "means nothing without --counters",
    "run --heap": "samples by chance",
    "run --heap-kb": "means nothing without --heap",
    "doctor --stress": "takes minutes and a GPU",
    "doctor --shifts": "means nothing without --stress",
    "doctor --calibrate": "measures the machine",
    "bench, sweep without --list": "measure times; their parameters, engines, formulas and points "
                                   "are compared",
    "smi without RUN": "readings of today's devices; without a device its sentence is compared",
    "sql prompt": "needs a terminal",
    "report on a terminal, live view": "need a terminal and time",
}


class Option:
    def __init__(self, line):
        self.name = re.search(r" -l (\S+)", line).group(1)
        short = re.search(r" -s (\S)", line)
        self.short = short.group(1) if short else None
        before = line.split(" -d '")[0]
        self.flag = " -x" not in before and " -r" not in before
        self.file = " -F" in before or "directories" in before
        words = re.search(r" -a '([^'(][^']*)'", before)
        self.words = words.group(1).split() if words else []


class Command:
    def __init__(self, name):
        self.name = name
        self.options = {}
        self.words = []  # of its argument
        self.takes = None  # "runs", "files" or "words"

    def has(self, option):
        return option in self.options


def commands(program):
    """The program's commands, from its fish completion."""
    text = subprocess.run([*program, "completion", "fish"], stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, check=True).stdout
    found = {name: Command(name) for name in
             re.findall(r"-n __fish_use_subcommand -a (\S+)", text)}
    for line in text.splitlines():
        of = re.search(r"__fish_seen_subcommand_from (\w+)'", line)
        if not of or of.group(1) not in found:
            continue
        command = found[of.group(1)]
        if " -l " in line:
            option = Option(line)
            command.options[option.name] = option
        elif "__moescope_runs" in line:
            command.takes = "runs"
        elif line.rstrip().endswith("-F"):
            command.takes = "files"
        elif " -a '" in line:
            command.takes = "words"
            command.words = re.search(r" -a '([^']*)'", line).group(1).split()
    return found


class Case:
    """Lines that run one after the other in an empty folder. The output of a line that begins with
    "-" is ignored. files: what they leave is compared too."""

    def __init__(self, *lines, stdin="", files=True):
        self.lines = [list(line) for line in lines]
        self.stdin = stdin
        self.files = files

    def name(self):
        text = "; ".join(shlex.join(line).removeprefix("'-' ").removeprefix("- ")
                         for line in self.lines)
        return text + (f" <<< {shlex.quote(self.stdin)}" if self.stdin else "")


class Cases:
    """shards: paths of shard files. ask(words): what one of the programs prints now."""

    def __init__(self, found, inputs, shards, ask, quick=False):
        self.commands = found
        self.inputs = inputs
        self.shards = shards
        self.deep = [i for i in inputs if i.deep]
        self.shallow = [i for i in inputs if not i.deep and not i.slight]
        self.ask = ask
        self.quick = quick
        self.left_out = dict(LEFT_OUT)
        kinds = {}
        for i in inputs:
            kinds.setdefault(i.kind, i)
        self.kinds = [i for i in kinds.values() if i.deep]
        self.one = self.kinds[0].word()

    def values(self, command, option):
        """The words that give an option, once for each value worth trying."""
        key = f"{command.name} {option.name}"
        before = WITH.get(key, [])
        if option.flag:
            return [[*before, f"--{option.name}"]]
        values = VALUES.get(key) or option.words or VALUES.get(option.name)
        if not values:
            self.left_out[f"{command.name} --{option.name}"] = "no value for it in VALUES"
            return []
        return [[*before, f"--{option.name}", value] for value in values]

    def forms(self, command, wide=True):
        """Every form of an answer; wide: all widths, else one, and none for a quick look."""
        if self.quick and not wide and command.has("json"):
            return [["--json"]]
        found = [["--width", w] for w in (WIDTHS if wide else ("80",))] if command.has("width") \
            else [[]]
        for name in ("json", "csv", "markdown"):
            if command.has(name) and command.options[name].flag:
                found.append([f"--{name}"])
        if wide and command.has("color"):
            found.append(["--color", "always"])
        return found

    def contents(self, command):
        """Every option except those of form, alone."""
        for option in command.options.values():
            form = option.name in FORMS and not (option.name == "csv" and not option.flag)
            left_out = f"{command.name} --{option.name}" in LEFT_OUT
            if not form and not left_out and option.name not in ("help", "sort"):
                yield option, self.values(command, option)

    def table(self, command, arguments, few):
        """All options over some arguments: each in every form, selections with shapes as JSON."""
        for argument in arguments:
            for form in self.forms(command):
                yield [*argument, *form]
            for option, values in self.contents(command):
                costly = f"{command.name} {option.name}" in COSTLY
                if costly and argument not in few:
                    continue
                wide = option.name in TEXTS_OF_THEIR_OWN
                for value in values:
                    value = [v.format(*argument) if option.name == "group" else v for v in value]
                    for form in self.forms(command, wide)[:1 if costly else None]:
                        yield [*argument, *value, *form]
            yield from self.pairs(command, argument)
            yield from self.sorted(command, argument)

    def pairs(self, command, argument):
        shapes = [v for name in SHAPE if command.has(name)
                  for v in self.values(command, command.options[name])]
        chosen = [self.values(command, command.options[name])[0 if name != "phase" else 1]
                  for name in SELECTION if command.has(name)]
        for shape, selection in itertools.product(shapes, chosen):
            yield [*argument, *shape, *selection, *(["--json"] if command.has("json") else [])]
        if len(chosen) > 1:
            yield [*argument, *itertools.chain(*chosen)]

    def sorted(self, command, argument):
        """By every key of the rows, if there are at least two rows."""
        if not command.has("sort"):
            return
        try:
            rows = json.loads(self.ask(command.name, *argument, "--json"))["rows"]
        except (ValueError, KeyError, TypeError):
            return
        if isinstance(rows, list) and len(rows) > 1:
            for key in rows[0]:
                yield [*argument, "--sort", key, "--csv"]

    def mistakes(self, command):
        """The answer to a wrong word; one input is enough."""
        argument = [self.one] if command.takes == "runs" else HARMLESS.get(command.name, [])
        yield ["--nosuch"]
        yield [*argument, "in/none", "in/none"]
        for option in command.options.values():
            if option.flag:
                yield [*argument, f"--{option.name}=1"]
                continue
            yield [*argument, f"--{option.name}"]
            if option.name not in ("output", "keep") and command.name not in ("run", "demo", "smi"):
                yield [*argument, *WITH.get(f"{command.name} {option.name}", []),
                       f"--{option.name}", "no such"]

    def special(self, name):
        """How to compare a command that is not a table of one run."""
        return {"run": self.run, "attach": self.none, "detach": self.none, "mark": self.none, "demo": self.none, "serve": self.none, "bench": self.bench,
                "sweep": self.sweep, "compare": self.compare, "summary": self.summary, "plot": self.plot,
                "import": self.imported, "export": self.export, "sql": self.sql,
                "explain": self.words, "completion": self.words, "help": self.words,
                "dump": self.dump, "doctor": self.doctor}.get(name)

    def all(self):
        """(words of the command, ...) of every case."""
        yield Case(["moescope"])
        yield Case(["moescope", "--help"])
        yield Case(["moescope", "--version"])
        yield Case(["moescope", "nosuch"])
        yield Case(["tinymoe", "--help"])
        for command in self.commands.values():
            yield Case(["moescope", command.name, "--help"])
            for words in self.mistakes(command):
                yield Case(["moescope", command.name, *words])
            special = self.special(command.name)
            if special:
                yield from special(command)
            else:
                yield from self.lines(command, self.plain(command))

    @staticmethod
    def lines(command, words):
        for line in words:
            yield Case(["moescope", command.name, *line])

    def plain(self, command):
        if command.takes != "runs":
            yield from self.table(command, [[]], [[]])
            return
        kinds = [[i.word()] for i in self.kinds]
        yield from self.table(command, [[i.word()] for i in self.deep], kinds[:2])
        yield []
        for i in self.shallow:
            yield [i.word(), *(["--json"] if command.has("json") else [])]
        if command.name == "report":
            yield [kinds[0][0], kinds[1][0]]
            yield [kinds[0][0], kinds[1][0], "--json"]
            for i in self.inputs:
                if not i.deep:
                    yield [i.word()]

    def none(self, _command):
        return []

    def words(self, command):
        lines = [[], *([word] for word in command.words)]
        if command.has("json"):
            lines += [[*line, "--json"] for line in lines]
        yield from self.lines(command, lines)

    def run(self, _command):
        """The probe and the launcher: what a program prints, and everything recorded that does not
        depend on time."""
        program = ["tinymoe", "--layers", "2", "--width", "16", "--heads", "2", "--experts", "4",
                   "--top-k", "2", "--expert-width", "16", "--batch", "2", "--context", "16",
                   "--threads", "1", "--steps", "4"]
        kept = ["select layer, step, phase, k, tokens, experts from routing",
                "select name, layer, expert, phase, depth, count(*) from ranges group by 1, 2, 3, 4, 5",
                "select name, layer, phase, shape, flops, bytes, count(*) from operations "
                "group by 1, 2, 3, 4, 5, 6", "select name, count(*) from counters group by 1",
                "select step, tokens, recorded from steps",
                "select event, bytes, device, use, site, count(*) from memory_events "
                "group by 1, 2, 3, 4, 5"]
        for options in ([], ["--level", "counts"], ["--level", "steps"], ["--level", "full"],
                        ["--sample", "2"], ["--schedule", "wait=1,active=2"], ["--ranks", "1"]):
            yield Case(["-", "moescope", "run", "-q", "-o", "a.mscope", *options, "--", *program],
                       *(["moescope", "sql", "a.mscope", "--csv", query] for query in kept),
                       files=False)
        yield Case(["moescope", "run", "-o", "a.mscope", "--", "sh", "-c", "echo a; exit 3"],
                   files=False)
        yield Case(["moescope", "run", "--", "in/none"])
        yield Case(["moescope", "run", "--", "in/classes.tsv"])
        yield Case(["moescope", "run"])

    def bench(self, command):
        lines = [["--list-parameters"], ["--list-parameters", "--json"], ["--list-engines"],
                 ["--list-engines", "--json"], ["--list-parameters", "--formulas"]]
        for _option, values in self.contents(command):
            lines += [[*value, "--list-parameters", "--json"] for value in values]
        yield from self.lines(command, lines)

    def sweep(self, command):
        lines = [["--list"]]
        for option, values in self.contents(command):
            if option.name == "resume":
                continue
            grid = [] if option.name in ("config", "preset", "parameter-sweep") \
                else ["--preset", "quick"]
            lines += [[*grid, *value, "--list"] for value in values]
        yield from self.lines(command, lines)

    def compare(self, command):
        near = [[a.word(), b.word()] for a, b in itertools.pairwise(self.deep)]
        again = ["in/recorded/tiny.mscope", "in/recorded/tiny-again.mscope"]
        most = [again, near[0], near[len(near) // 2]]
        yield from self.lines(command, self.table(command, most, most))
        lines = [[*pair, *form] for pair in near for form in self.forms(command)]
        lines += [[], [self.one], [*near[0], again[0]], [*near[0], again[0], "--json"],
                  ["-g", f"a={again[0]},{again[1]}", "-g", f"b={near[0][0]},{near[0][1]}"],
                  ["in/recorded", "in/fakes"], ["in/recorded", "in/fakes", "--json"]]
        yield from self.lines(command, lines)

    def summary(self, command):
        for name in ("scaling", "single", "many", "one", "line", "wide", "none"):
            for form in self.forms(command):
                yield Case(["moescope", "summary", f"in/experiments/{name}", "-o", "out", *form])

    def plot(self, command):
        names = [line.split()[0] for line in self.ask("plot", "--list").splitlines()]
        yield Case(["moescope", "plot", "--list"])
        yield Case(["moescope", "plot", self.one, "nosuch"])
        for i, name in itertools.product(self.deep, names):
            yield Case(["moescope", "plot", i.word(), name, "-o", "p.svg"])
        for i, name in itertools.product(self.kinds[:2], names):
            for more in (["--theme", "dark", "--format", "svg"], ["--scale", "0.5"], ["--layer", "0"],
                         ["--steps", "1:2", "--format", "svg", "-o", "-"]):
                if all(command.has(word[2:]) for word in more if word.startswith("--")):
                    yield Case(["moescope", "plot", i.word(), name, *more])

    def imported(self, _command):
        for i in self.inputs:
            yield Case(["moescope", "import", i.word()])
            if not i.slight:
                # With all threads: the bytes may differ, but not their meaning.
                yield Case(["moescope", "import", i.word(), "-o", "a.mscope"],
                           ["moescope", "report", "a.mscope", "--json"], files=False)
            if i.deep:
                yield Case(["moescope", "import", i.word(), "-o", "other.mscope"],
                           ["moescope", "report", "other.mscope", "--json"])

    def export(self, command):
        formats = command.options["to"].words
        for i in self.deep + self.shallow:
            for to in formats if i.deep else ["chrome-json"]:
                yield Case(["moescope", "export", i.word(), "--to", to])
            if i.deep:
                yield Case(["moescope", "export", i.word(), "--per-rank", "-o", "ranks"])
        for to in formats:
            yield Case(["moescope", "export", self.one, "--to", to, "-o", "-"])
            yield Case(["moescope", "export", self.one, "--to", to, "-o", "a.gz"])

    def tables(self):
        return re.findall(r"^CREATE (?:TABLE|VIEW) (\w+)", self.ask("sql", "--schema"), re.M)

    def sql(self, command):
        tables = self.tables()
        yield Case(["moescope", "sql", "--schema"])
        for i in self.deep:
            for table in tables:
                yield Case(["moescope", "sql", i.word(), f"select * from {table}", "--json"])
            for form in self.forms(command):
                yield Case(["moescope", "sql", i.word(), "--file", "in/queries.sql", *form])
        for i in self.kinds[:2 if self.quick else None]:
            for table in tables:
                yield Case(["moescope", "sql", i.word(), f"select * from {table}", "--width", "80",
                            "-n", "5"])
                yield Case(["moescope", "sql", i.word(), self.one, "--csv",
                            f"select count(*), * from {table} group by run"])
        for i in self.shallow:
            yield Case(["moescope", "sql", i.word(), "--file", "in/queries.sql", "--csv"])
        for query in ("select", "select * from nosuch", "delete from kernels", "select 1; select 2",
                      "create temp table t as select 1 a; select * from t", ".help", ".tables"):
            yield Case(["moescope", "sql", self.one, query])
            yield Case(["moescope", "sql", self.one], stdin=query + "\n")

    def dump(self, command):
        for path in self.shards:
            for form in self.forms(command):
                yield Case(["moescope", "dump", path, *form])

    def doctor(self, command):
        for form in self.forms(command):
            yield Case(["moescope", "doctor", *form])
