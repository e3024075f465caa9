# SPDX-License-Identifier: Apache-2.0
"""moescope mcp: messages as they come, good and bad; answers that are right, short, and lead to the next
question; and the same through the protocol's own client."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from cli import MOESCOPE, PATIENCE_S, Skip, check, environment, equal, main, moescope, one_sentence, record, test
from planted import PLANTED, Trace

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS = 4000
BYTES_PER_TOKEN = 3  # fewer than any tokenizer has for English and short numbers
RIGHT_SHARE = 0.95
TABLES = ["kernels", "ops", "api", "calls", "stacks", "heap", "host", "host-parts", "host-times", "host-phases",
          "transfers", "comm", "moe", "steps", "requests", "routing", "routing-steps",
          "routing-experts", "routing-pairs", "routing-k", "memory", "efficiency", "counters",
          "counters-kernels", "counters-ranges", "counters-layers", "counters-experts", "counters-stalls",
          "counters-lines", "hardware"]


class Server:
    """A server and a client that writes lines. Every line that comes back is one message."""

    def __init__(self, directory="."):
        self.process = subprocess.Popen([MOESCOPE, "mcp", directory], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment())
        self.id = 0

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if failure[0]:
            self.process.kill()
        out, err = self.process.communicate(timeout=PATIENCE_S)
        if not failure[0]:
            equal((out, err, self.process.returncode), (b"", b"", 0))

    def send(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode())
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, method, **params):
        self.id += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}))
        answer = self.read()
        equal((answer["jsonrpc"], answer["id"]), ("2.0", self.id), answer)
        return answer

    def call(self, tool, failed=False, **arguments):
        """The text of an answer, whose size is checked, or the sentence of a failure."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        (content,) = result["content"]
        equal((result["isError"], content["type"]), (failed, "text"), content)
        tokens = len(content["text"].encode()) / BYTES_PER_TOKEN
        check(tokens <= TOKENS, f"{tool} {arguments}: {tokens:.0f} tokens")
        if failed:
            sentence(content["text"])
        return content["text"]

    def object(self, tool, **arguments):
        return json.loads(self.call(tool, **arguments))

    def error(self, line):
        """Of a line that is no request: the code and the sentence. The server lives on."""
        self.send(line)
        answer = self.read()
        equal(self.ask("ping")["result"], {})
        sentence(answer["error"]["message"])
        return answer["error"]["code"], answer["id"], answer["error"]["message"]


def sentence(text):
    check(text and text[-1] in ".?" and "\n" not in text, f"not a sentence: {text!r}")


def last_object(text):
    return json.loads(text.rstrip("\n").split("\n")[-1])


def rows_of(text):
    """The rows of the first Markdown table."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("|--")) + 1
    return [line for line in lines[first:next(i for i in range(first, len(lines))
                                              if not lines[i].startswith("|"))]]


@test
def handshakes():
    with Server() as server:
        for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            result = server.ask("initialize", protocolVersion=version, capabilities={},
                                clientInfo={"name": "test", "version": "1"})["result"]
            equal(result["protocolVersion"], version)
            equal(result["capabilities"], {"tools": {}})
            equal(result["serverInfo"]["name"], "moescope")
        result = server.ask("initialize", protocolVersion="1999-01-01")["result"]
        equal(result["protocolVersion"], "2025-11-25")
        server.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        server.send(json.dumps({"jsonrpc": "2.0", "method": "no/such", "params": {}}))
        server.send(json.dumps({"jsonrpc": "2.0", "id": 7, "result": {}}))
        equal(server.ask("ping")["result"], {})
        equal(server.ask("initialize")["error"]["code"], -32602)


@test
def requests_that_say_their_version():
    key = "io.modelcontextprotocol/protocolVersion"
    with Server() as server:
        found = server.ask("server/discover", _meta={key: "2026-07-28"})["result"]
        check("2026-07-28" in found["supportedVersions"], found)
        equal(found["resultType"], "complete")
        result = server.ask("tools/list", _meta={key: "2026-07-28"})["result"]
        equal((result["resultType"], result["cacheScope"]), ("complete", "private"))
        check(result["ttlMs"] > 0, result["ttlMs"])
        equal(server.ask("ping", _meta={key: "2025-11-25"})["result"], {})
        error = server.ask("tools/list", _meta={key: "2099-01-01"})["error"]
        equal((error["code"], error["data"]["requested"]), (-32022, "2099-01-01"))
        check("2026-07-28" in error["data"]["supported"], error)


@test
def bad_messages():
    deep = "[" * 100000
    with Server() as server:
        for line in (b'{"jsonrpc": "2.0", "id": 1, "meth', b"{", b"hello", b'"\\ud800', deep.encode(),
                     b"\x00", b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}'):
            code, number, text = server.error(line)
            equal((code, number), (-32700, None), line[:60], text)
            check("byte" in text, text)
        code, number, text = server.error(b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}')
        equal((code, number), (-32700, None))
        check("UTF-8 at byte 39" in text, text)
        code, number, text = server.error('{"jsonrpc":"2.0","id":1,"method":"' + "x" * (3 << 20) + '"}')
        equal((code, number), (-32600, None))
        check("at most" in text, text)
        for line in ("1", '"ping"', "[]", "{}", '{"id": 1, "method": "ping"}',
                     '{"jsonrpc": "1.0", "id": 1, "method": "ping"}', '{"jsonrpc": "2.0", "id": 1}',
                     '{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
                     '{"jsonrpc": "2.0", "id": null, "method": "ping"}',
                     '{"jsonrpc": "2.0", "id": 1, "method": 5}'):
            equal(server.error(line)[0], -32600, line)
        equal(server.error('{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": []}')[:2],
              (-32602, "a"))
        equal(server.ask("no/such")["error"]["code"], -32601)
        server.send("")
        server.send(" \r")
        server.send('{"jsonrpc": "2.0", "id": "\\u00e9\\"", "method": "ping"}\r')
        equal(server.read(), {"jsonrpc": "2.0", "id": "é\"", "result": {}})
        server.send('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "x"}, 5]')
        first, second = server.read()
        equal((first["id"], second["error"]["code"]), (1, -32600))
        server.send('[{"jsonrpc": "2.0", "method": "notifications/cancelled"}]')
        equal(server.ask("ping")["result"], {})


@test
def the_end_of_the_input_is_the_end():
    r = moescope("mcp", stdin='{"jsonrpc":"2.0","id":1,"method":"ping"}')
    equal((r.status, r.err, json.loads(r.out)), (0, "", {"jsonrpc": "2.0", "id": 1, "result": {}}))
    equal(moescope("mcp", stdin="").status, 0)
    one_sentence(moescope("mcp", "nowhere", stdin=""), 1, "nowhere")
    one_sentence(moescope("mcp", ".", ".", stdin=""), 2)


@test
def tools_are_described():
    with Server() as server:
        tools = server.ask("tools/list")["result"]["tools"]
    equal({tool["name"] for tool in tools}, {"verdicts", "table", "runs", "explain", "sql", "compare"})
    check(len(json.dumps(tools)) / BYTES_PER_TOKEN <= TOKENS / 2, "a list that every session pays for")
    for tool in tools:
        check(tool["description"] and tool["annotations"]["readOnlyHint"], tool)
        schema = tool["inputSchema"]
        check(set(schema["required"]) <= set(schema["properties"]), tool)
        for name, argument in schema["properties"].items():
            check(argument["type"] in ("string", "integer", "boolean"), name)
            check(argument.get("description") or argument.get("enum"), name)
    table = next(tool for tool in tools if tool["name"] == "table")["inputSchema"]["properties"]
    equal(table["table"]["enum"], TABLES)
    equal(table["by"]["enum"][:2], ["name", "class"])
    check({"sort", "limit", "offset", "steps", "layer", "phase", "by"} <= set(table), table)
    check(not {"json", "csv", "width", "classes", "columns"} & set(table), "what is no matter of an agent")


@test
def runs_are_listed_newest_first():
    record("old.mscope", 3)
    os.makedirs("sweep/points")
    shutil.copytree(record("new.mscope", 4), "sweep/points/p1.mscope")
    shutil.rmtree("new.mscope")
    trace = Trace()
    trace.kernels(3, 10)
    trace.write("foreign.json")
    pathlib.Path("note.txt").write_text("not a run", encoding="utf-8")
    os.mkdir("broken.mscope")
    pathlib.Path("broken.mscope/run.json").write_text("{", encoding="utf-8")
    with Server() as server:
        runs = {run["run"]: run for run in server.object("runs")["runs"]}
        equal(set(runs), {"old.mscope", "sweep/points/p1.mscope", "foreign.json", "broken.mscope"})
        equal(runs["old.mscope"]["steps"], 3)
        equal((runs["sweep/points/p1.mscope"]["steps"], runs["old.mscope"]["status"]), (4, "exited"))
        check(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", runs["old.mscope"]["started"]))
        check("tinymoe" in runs["old.mscope"]["command"], runs)
        check("Kineto" in runs["foreign.json"]["format"], runs)
        check(runs["broken.mscope"]["trouble"], runs)
        names = [run["run"] for run in server.object("runs", offset=1)["runs"]]
        equal(len(names), 3)
        check(server.object("verdicts", run="sweep/points/p1")["verdicts"])


@test
def one_run_may_be_served():
    record("a.mscope", 3)
    record("b.mscope", 3)
    with Server("a.mscope") as server:
        equal([run["run"] for run in server.object("runs")["runs"]], ["a.mscope"])
        equal(server.object("verdicts")["run"], "a.mscope")
        check("no run 'b.mscope'" in server.call("verdicts", True, run="b.mscope"))


@test
def a_run_is_found_by_its_name_alone():
    os.mkdir("inside")
    record("inside/training-1.mscope", 3)
    record("outside.mscope", 3)
    os.symlink("../outside.mscope", "inside/link.mscope")
    os.symlink("training-1.mscope", "inside/alias.mscope")
    # Directories of their own, with files from elsewhere.
    for name in ("json", "shard"):
        os.mkdir(f"inside/{name}.mscope")
        for file in sorted(os.listdir("outside.mscope")):
            source, target = f"outside.mscope/{file}", f"inside/{name}.mscope/{file}"
            if (file == "run.json") == (name == "json"):
                os.symlink("../../" + source, target)
            else:
                shutil.copy(source, target)
    with Server("inside") as server:
        equal([run["run"] for run in server.object("runs")["runs"]], ["training-1.mscope"])
        equal(server.object("verdicts", run="training-1")["run"], "training-1.mscope")
        equal(server.object("verdicts", run="alias")["run"], "alias.mscope")
        for name in ("../outside.mscope", "../outside", os.path.abspath("outside.mscope"), "/etc/passwd",
                     "..", "link.mscope", "json", "shard.mscope", "training-1.mscope/../../outside.mscope", "../../../../etc"):
            text = server.call("verdicts", True, run=name)
            check("outside the directory" in text or "no run" in text, text)
        check("did you mean 'training-1.mscope'?" in server.call("verdicts", True, run="trainin-1.mscope"))
        for name in ("", "x" * 5000, "a\nb", "%s%n", "--help", "training-1.mscope/run.json"):
            server.call("verdicts", True, run=name)
        shutil.rmtree("inside/training-1.mscope")
        check("no run" in server.call("verdicts", True, run="training-1.mscope"))
        check("no run here" in server.call("verdicts", True))
        equal(server.object("runs"), {"runs": []})


@test
def arguments_are_checked():
    record("a.mscope", 3)
    with Server() as server:
        error = server.ask("tools/call", name="verdict")["error"]
        equal((error["code"], "'verdicts'" in error["message"]), (-32602, True), error)
        equal(server.ask("tools/call")["error"]["code"], -32602)
        equal(server.ask("tools/call", name="runs", arguments=[1])["error"]["code"], -32602)
        server.call("runs", offset=None)
        for tool, arguments, words in (
                ("table", {}, "needs 'table'"), ("table", {"table": "kernel"}, "'kernels'"),
                ("table", {"table": "report"}, "no table"), ("table", {"table": 5}, "no table"),
                ("table", {"table": "ops", "sort": "nothing"}, "nothing"),
                ("table", {"table": "ops", "steps": "x"}, "A:B"),
                ("table", {"table": "ops", "layer": -1}, "whole number"),
                ("table", {"table": "ops", "layer": 10 ** 12}, "range"),
                ("table", {"table": "ops", "layer": 1.5}, "whole number"),
                ("table", {"table": "ops", "phase": "forwards"}, "'forward'"),
                ("table", {"table": "ops", "by": "class"}, "by"),
                ("table", {"table": "kernels", "classes": "/etc/passwd"}, "no argument"),
                ("table", {"table": "ops", "by-shape": "yes"}, "true or false"),
                ("table", {"table": "ops", "offset": 10 ** 9}, "behind"),
                ("table", {"table": "ops", "sort": {}}, "text"),
                ("table", {"table": "ops", "limits": 3}, "'limits'; did you mean 'limit'?"),
                ("explain", {"name": "imbalanse"}, "'imbalance'"), ("explain", {"name": "xyz"}, "no metric"),
                ("verdicts", {"steps": "5:3"}, "ends before"), ("verdicts", {"runs": "a"}, "'run'"),
                ("compare", {"baseline": "a"}, "needs 'run'"),
                ("compare", {"baseline": "a", "run": "b"}, "no run 'b'"),
                ("sql", {"query": "selec 1"}, "syntax"), ("sql", {"query": ""}, "SELECT"),
                ("sql", {"query": "select 1; select 2"}, "one query"),
                ("sql", {"query": "delete from steps"}, ""), ("sql", {"query": "attach 'x' as y"}, ""),
                ("sql", {"schema": "nosuch"}, "no table")):
            text = server.call(tool, True, **arguments)
            check(words in text, tool, arguments, text)


@test
def a_verdict_leads_to_its_rows():
    record("a.mscope", 6)
    with Server() as server:
        for verdict in server.object("verdicts")["verdicts"]:
            check(verdict["title"] and verdict["advice"] and verdict["severity"], verdict)
            check(verdict["id"] in server.call("explain", name=verdict["id"]))
            if "table" not in verdict:
                continue
            check("unit" in server.call("explain", name=f"{verdict['table']}.{verdict['sort']}"))
            text = server.call("table", table=verdict["table"], sort=verdict["sort"], limit=3)
            shown = last_object(text)
            equal((shown["run"], shown["table"], shown["sort"]), ("a.mscope", verdict["table"], verdict["sort"]))
            equal(shown["shown"], len(verdict["rows"]))
            for row in verdict["rows"]:
                name = str(next(iter(row.values())))
                check(any(re.match(rf"\| {re.escape(name)}\b", line) for line in rows_of(text)), name, text)


@test
def tables_are_those_of_the_commands():
    record("a.mscope", 5)
    with Server() as server:
        for table in TABLES:
            text = server.call("table", table=table)
            shown = last_object(text)
            equal((shown["table"], shown["run"]), (table, "a.mscope"))
            check(shown["shown"] <= shown["of"], shown)
        text = server.call("table", table="ops", limit=5, sort="count", phase="forward", steps="1:3")
        told = moescope("ops", "a", "--markdown", "--limit", "5", "--sort", "count", "--phase", "forward",
                        "--steps", "1:3").out
        equal(rows_of(text), rows_of(told))
        equal(len(rows_of(server.call("table", table="routing", layer=1))),
              len(rows_of(moescope("routing", "a", "--layer", "1", "--markdown").out)))


@test
def large_tables_are_cut_between_rows():
    trace = Trace(noise=0)
    for i in range(1500):
        trace.kernel(10 + i, name=f"kernel_{i}_" + "é<|" * (i % 50))
    trace.write("large.json")
    with Server() as server:
        equal(len(rows_of(server.call("table", table="kernels"))), 20)
        seen, offset = [], 0
        while offset is not None:
            text = server.call("table", table="kernels", offset=offset, limit=0)
            shown = last_object(text)
            rows = rows_of(text)
            equal((len(rows), shown["offset"], shown["of"]), (shown["shown"], offset, 1500))
            seen += rows
            equal(shown.get("left_out", 0), 1500 - len(seen))
            offset = shown.get("next", {}).get("offset")
        equal((len(seen), len(set(seen))), (1500, 1500))
        equal(seen, rows_of(moescope("kernels", "large.json", "--markdown", "--limit", "0").out))
        query = "select name, start_ns from kernels order by start_ns"
        rows, answer = [], {"next": {"offset": 0}}
        while "next" in answer:
            answer = server.object("sql", query=query, offset=answer["next"]["offset"])
            equal(answer["columns"], ["name", "start_ns"])
            rows += answer["rows"]
            equal(answer.get("left_out", 0), 1500 - len(rows))
        equal([row[1] for row in rows], sorted({row[1] for row in rows}))
        answer = server.object("sql", query="select hex(zeroblob(100000)) as h, 1.5, null")
        check(len(answer["rows"][0][0]) < 300 and answer["rows"][0][1:] == [1.5, None], "cells are clipped")
        columns = ", ".join(f"hex(zeroblob(1000)) as c{i}" for i in range(100))
        check("fewer columns" in server.call("sql", True, query=f"select {columns}"))
        check("CREATE TABLE" in server.call("sql", schema="kernels"), "the columns")
        check("kernels" in server.call("sql"), "the tables")


@test
def many_runs_are_cut_between_runs():
    record("a.mscope", 2)
    for i in range(150):
        shutil.copytree("a.mscope", f"copy-{i}.mscope")
    with Server() as server:
        names, answer = [], {"next": {"offset": 0}}
        while "next" in answer:
            answer = server.object("runs", offset=answer["next"]["offset"])
            names += [run["run"] for run in answer["runs"]]
            equal(answer.get("left_out", 0), 151 - len(names))
        equal(len(set(names)), 151)


@test
def runs_are_compared():
    record("a.mscope", 12)
    record("b.mscope", 12)
    with Server() as server:
        text = server.call("compare", baseline="a", run="b", steps="2:")
        check(text.startswith("baseline a.mscope, run b.mscope\n") and "step_time" in text, text)


@test
def planted_causes_come_first():
    right, wrong, longest = 0, [], 0
    for i, (_, plant, _) in enumerate(PLANTED):
        plant(f"{i}.trace")
    with Server() as server:
        for i, (name, _, wanted) in enumerate(PLANTED):
            text = server.call("verdicts", run=f"{i}.trace")
            longest = max(longest, len(text.encode()) / BYTES_PER_TOKEN)
            verdicts = json.loads(text)["verdicts"]
            first = verdicts[0]["id"] if verdicts else None
            right += first == wanted
            if first != wanted:
                wrong.append(f"{name}: {first}, not {wanted}")
    print(f"  {right} of {len(PLANTED)} planted causes come first, in at most {longest:.0f} tokens")
    check(right >= RIGHT_SHARE * len(PLANTED), *wrong)
    check(not wrong, *wrong)


@test
def the_client_of_the_protocol():
    made = subprocess.run([ROOT / "tools" / "python_env.sh", "agents"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    if made.returncode:
        raise Skip("the client cannot be installed: " + " ".join(made.stderr.split())[-200:])
    record("a.mscope", 6)
    record("b.mscope", 6)
    calls = [["runs", {}], ["verdicts", {"run": "a"}], ["table", {"table": "ops", "limit": 3}],
             ["explain", {"name": "cv_excess"}], ["sql", {"query": "select count(*) from steps"}],
             ["compare", {"baseline": "a", "run": "b"}], ["verdicts", {"run": "c"}]]
    for mode, version in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        done = subprocess.run([sys.executable, ROOT / "tests" / "cli" / "mcp_client.py", MOESCOPE, ".", mode,
                               json.dumps(calls)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=PATIENCE_S, check=False, env=environment(PYTHONPATH=made.stdout.strip()))
        equal(done.returncode, 0, done.stderr[-2000:])
        told = json.loads(done.stdout)
        equal(told["version"], version)
        equal(sorted(told["tools"]), ["compare", "explain", "runs", "sql", "table", "verdicts"])
        equal([bool(failed) for failed, _ in told["answers"]], [False] * 6 + [True], told)
        texts = [text for _, text in told["answers"]]
        equal(len(json.loads(texts[0])["runs"]), 2)
        equal(json.loads(texts[4])["rows"], [[6]])
        check(all(len(text.encode()) <= TOKENS * BYTES_PER_TOKEN for text in texts), "short answers")


if __name__ == "__main__":
    main()
