# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the servers of vLLM and SGLang: they take those servers' arguments and run the
mock.

install(folder) creates a program `vllm` in folder/bin, for PATH, and a package `sglang` in
folder/packages, for PYTHONPATH. Each start appends its arguments to folder/started.jsonl.
FAKE_SERVER_OPTIONS has options for the mock, such as "--ttft-ms 1"; FAKE_SERVER_FAILS makes a
server die, FAKE_RECORDER_FAILS makes its recorder refuse.
"""
import json
import os
import shlex
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def install(folder):
    bin_folder, package = os.path.join(folder, "bin"), os.path.join(folder, "packages", "sglang")
    os.makedirs(bin_folder)
    os.makedirs(package)
    start = (f"import sys\nsys.path.insert(0, {HERE!r})\nimport fake_servers\n"
             f"fake_servers.serve({os.path.abspath(folder)!r}, ")
    vllm = os.path.join(bin_folder, "vllm")
    with open(vllm, "w", encoding="utf-8") as file:
        file.write(f"#!{sys.executable}\n{start}'vllm')\n")
    os.chmod(vllm, 0o755)
    open(os.path.join(package, "__init__.py"), "w", encoding="utf-8").close()
    with open(os.path.join(package, "launch_server.py"), "w", encoding="utf-8") as file:
        file.write(f"{start}'sglang')\n")


def started(folder):
    """The arguments of every start, as dictionaries of option: value."""
    with open(os.path.join(folder, "started.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def options_of(words):
    """--name value pairs, and positional ones by position."""
    found, at = {}, 0
    while at < len(words):
        if words[at].startswith("--") and at + 1 < len(words):  # a value may be -1
            found[words[at][2:]] = words[at + 1]
            at += 2
        else:
            found[str(at)] = words[at]
            at += 1
    return found


def _record(mock_server):
    """SGLang's recorder: tokens of 2 layers and 3 experts while it is on, in the file it would
    write."""
    steps, recording = [], [False]
    serve_plain, finish = mock_server.Connection.serve, mock_server.Request.finish

    def serve_recorder(connection, method, path, headers, data):
        if path == "/start_expert_distribution_record":
            recording[0] = True
        elif path == "/stop_expert_distribution_record":
            recording[0] = False
        elif path == "/dump_expert_distribution_record":
            import torch
            torch.save({"rank": 0, "logical_count": torch.tensor(steps, dtype=torch.int32),
                        "average_utilization_rate_over_window": None},
                       os.path.join(os.environ["SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR"],
                                    "expert_distribution_recorder_1.5.pt"))
        else:
            serve_plain(connection, method, path, headers, data)
            return
        connection.answer(500 if "FAKE_RECORDER_FAILS" in os.environ else 200, {})

    def count(request, end, status):
        if recording[0] and not request.done:
            n = request.plan.tokens
            steps.append([[n, 2 * n, 0], [0, n, 2 * n]])
        finish(request, end, status)
    mock_server.Connection.serve, mock_server.Request.finish = serve_recorder, count


def serve(folder, name):
    options = options_of(sys.argv[1:])
    with open(os.path.join(folder, "started.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps(dict(options, program=name, pid=os.getpid())) + "\n")
    if "FAKE_SERVER_FAILS" in os.environ:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory.")
    import mock_server
    if options.get("expert-distribution-recorder-mode"):
        _record(mock_server)
    sys.argv = [name, "--port", options["port"], "--model", options["served-model-name"],
                "--truth", os.path.join(folder, f"truth-{os.getpid()}.jsonl"),
                *shlex.split(os.environ.get("FAKE_SERVER_OPTIONS", "--ttft-ms 0.2 --gap-ms 0"))]
    mock_server.main()
