# SPDX-License-Identifier: Apache-2.0
"""moescope bench: one experiment and its folder. Figures are counted again here, from the file."""

import csv
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys

from cli import MOESCOPE, TINYMOE, check, environment, equal, main, moescope, one_sentence, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALWAYS = {"config.yaml", "experiment.log", "summary.json", "metrics.json", "gpu_info.json"}


def bench(*words, status=0, name="a", **kwargs):
    """The summary of an experiment, as it is printed and as it is in the folder."""
    r = moescope("bench", "--experiment-name", name, "--json", *words, **kwargs)
    equal(r.status, status, r)
    summary = json.loads(r.out)
    with open(f"results/{name}/summary.json", encoding="utf-8") as file:
        equal(json.load(file), summary)
    with open(f"results/{name}/metrics.json", encoding="utf-8") as file:
        equal(json.load(file), summary["metrics"])
    equal(set(summary["files"]), set(os.listdir(f"results/{name}")))
    check(ALWAYS <= set(summary["files"]), summary["files"])
    return summary


def requests(name="a"):
    with open(f"results/{name}/requests.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if "sent_ns" in line and not line["warmup"]]


def close(got, wanted):
    check(abs(got - wanted) <= 1e-9 * abs(wanted), f"got {got}, wanted {wanted}")


def command(line, *words, **kwargs):
    return bench("--engine", "command", "--command", line, *words, **kwargs)


@test
def figures_are_those_of_the_file():
    summary = bench("--batch-size", 3, "--max-tokens", 7, "--repeats", 4, "--warmup", 2)
    equal(summary["status"], "success")
    equal(summary["error"], None)
    metrics = summary["metrics"]
    done = requests()
    equal(len(done), 12)
    times = []
    for i in range(4):
        group = done[3 * i:3 * i + 3]
        times.append((max(r["end_ns"] for r in group) - min(r["sent_ns"] for r in group)) * 1e-9)
        close(metrics["repeats"][i]["inference_time"], times[i])
        equal(metrics["repeats"][i]["tokens"], 21)
    for r in done:
        equal(len(r["pieces_ns"]), r["output_tokens"])
        equal(r["pieces_ns"], sorted(r["pieces_ns"]))
    close(metrics["inference_time"], sum(times) / 4)
    close(metrics["tokens_per_second"], 84 / sum(times))
    equal(metrics["output_tokens"], 84)
    equal(metrics["prompt_tokens"], 12 * len("Hello, how are you?"))
    check(metrics["load_time"] > 0 and metrics["wall_time"] >= metrics["load_time"], metrics)
    ttft = [(r["pieces_ns"][0] - r["sent_ns"]) * 1e-6 for r in done]
    close(metrics["serving"]["vllm"]["ttft_ms"]["mean"], sum(ttft) / 12)
    equal(set(metrics["serving"]), {"vllm", "guidellm", "aiperf"})
    equal(set(summary["files"]) - ALWAYS, {"command.sh", "generated_output.txt", "requests.jsonl"})
    check(os.access("results/a/command.sh", os.X_OK), "command.sh can be started again by hand")


@test
def the_same_seed_gives_the_same_text():
    texts = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        bench("--max-tokens", 20, "--seed", seed, name=name)
        with open(f"results/{name}/generated_output.txt", encoding="utf-8") as file:
            texts.append(file.read())
    equal(texts[0], texts[1])
    check(texts[0] != texts[2], texts)


@test
def training_is_measured():
    metrics = bench("--task", "training", "--steps", 3, "--batch-size", 2)["metrics"]
    steps = requests()
    equal(len(steps), 3)
    time = (steps[-1]["end_ns"] - steps[0]["sent_ns"]) * 1e-9
    tokens = sum(step["prompt_tokens"] for step in steps)
    equal(tokens, 3 * 2 * 64)  # tinymoe's context
    close(metrics["tokens_per_second"], tokens / time)
    close(metrics["step_time"], time / 3)
    equal(metrics["serving"], None)
    check("training" in metrics["serving_reason"])


@test
def a_trace_and_its_files():
    summary = bench("--profile-mode", "nsys", "--max-tokens", 5)
    equal(summary["config"]["profile_mode"], "trace")
    check({"trace.mscope", "nsys_metrics.json", "nsys_summary.csv"} <= set(summary["files"]),
          summary["files"])
    run = json.loads(moescope("report", "results/a/trace.mscope", "--json").out)
    equal(run["run"]["status"], "exited")
    # What tinymoe's allocator held at most, as the run has it, against the sizes of the model.
    memory = summary["metrics"]["memory"]
    equal(memory["measured_peak_bytes"],
          json.loads(moescope("memory", "results/a/trace.mscope",
                              "--json").out)["rows"][0]["peak_allocated_bytes"])
    check(0.5 < memory["measured_to_estimated"] < 2, memory)


@test
def a_trace_with_counters_has_the_files_of_nsight_compute():
    pathlib.Path("ncu.csv").write_text(
        '"ID","Process ID","Kernel Name","Device","CC","dram__throughput.avg.pct_of_peak_sustained_elapsed"\n'
        '"","","","","","%"\n"0","5","mul(float *)","0","9.0","72"\n', encoding="utf-8")
    equal(moescope("import", "ncu.csv", "-o", "counted.mscope").status, 0)
    # The program adds what another one counted to its own run.
    here = os.getcwd()
    summary = command(f"cp {here}/counted.mscope/*.mst {here}/results/a/trace.mscope/", "--profile-mode", "nsys")
    check({"ncu_metrics.json", "kernel_comparison.csv"} <= set(summary["files"]), summary)
    with open("results/a/ncu_metrics.json", encoding="utf-8") as file:
        document = json.load(file)
    equal((document["summary"], document["kernels"][0]["bound_by"]), ({"kernels": 1, "launches": 1}, "memory"))
    with open("results/a/kernel_comparison.csv", newline="", encoding="utf-8") as file:
        row, = csv.DictReader(file)
    equal((row["Kernel Name"], row["DRAM %"], row["Bound By"], row["Instances"]), ("mul(float *)", "72", "memory", ""))


@test
def full_says_that_counters_are_not_collected():
    summary = bench("--profile-mode", "nsys_ncu", "--max-tokens", 3)
    check(any("hardware counters" in note for note in summary["notes"]), summary["notes"])
    check("ncu_metrics.json" not in summary["files"])


@test
def parameters_of_the_embedded_model():
    described = json.loads(subprocess.run([TINYMOE, "--describe"], check=True,
                                          capture_output=True).stdout)
    width, inner = described["hidden_size"], described["intermediate_size"]
    layer = (4 * width * width + 2 * width +
             described["num_local_experts"] * (3 * width * inner + width))
    wanted = (described["num_hidden_layers"] * layer +
              width * (2 * 256 + described["max_position_embeddings"] + 1))
    equal(bench("--max-tokens", 2)["metrics"]["memory"]["parameters"], wanted)
    r = moescope("run", "-q", "-o", "a.mscope", "--", TINYMOE, "--steps", "0", "--quiet",
                 "--generate", "1", stdout=subprocess.DEVNULL)
    equal(r.status, 0, r)
    check(f"{wanted} parameters" in moescope("report", "a.mscope").out, "as tinymoe counts them")


@test
def effective_configuration_runs_again():
    first = bench("--max-tokens", 4, "--prompt", "naïve: \"q\" #x\n", "--environment", "A=1",
                  "--environment", "B='x y'")
    r = moescope("bench", "--config", "results/a/config.yaml", "--experiment-name", "b", "--json")
    equal(r.status, 0, r)
    again = json.loads(r.out)
    equal(again["config"] | {"experiment_name": "a"}, first["config"])
    equal(first["config"]["environment"], {"A": "1", "B": "x y"})
    with open("results/a/generated_output.txt", encoding="utf-8") as one, \
            open("results/b/generated_output.txt", encoding="utf-8") as two:
        equal(one.read(), two.read())


@test
def command_measures_what_the_program_writes():
    with open("driver.py", "w", encoding="utf-8") as file:
        file.write("import json, os, sys\n"
                   "out = open(os.environ['MOESCOPE_BENCH_REQUESTS'], 'w')\n"
                   "print('{\"schema\": \"moescope/requests/1\"}', file=out)\n"
                   "print(json.dumps({'sent_ns': 1000000000, 'end_ns': 3000000000, 'end': 'ok',\n"
                   "  'output_tokens': int(sys.argv[1])}), file=out)\n"
                   "print(json.dumps({'text': sys.argv[2]}), file=out)\n"
                   "assert open(os.environ['MOESCOPE_BENCH_CONFIG']).read()\n"
                   "assert os.environ['MINE'] == 'x y'\n")
    metrics = command(f"{sys.executable} driver.py {{max_tokens}} {{prompt}}", "--max-tokens", 50,
                      "--prompt", "it's $HOME", "--environment", "'MINE=x y'")["metrics"]
    equal(metrics["tokens_per_second"], 25)
    equal(metrics["inference_time"], 2)
    with open("results/a/generated_output.txt", encoding="utf-8") as file:
        equal(file.read(), "it's $HOME\n")


@test
def command_without_figures_has_its_wall_time():
    metrics = command("true")["metrics"]
    check(metrics["wall_time"] > 0)
    equal(metrics["tokens_per_second"], None)
    check("MOESCOPE_BENCH_REQUESTS" in metrics["tokens_per_second_reason"], metrics)


@test
def bad_figures_fail_with_their_line():
    summary = command("echo nonsense > $MOESCOPE_BENCH_REQUESTS", status=1)
    equal(summary["status"], "failed")
    check("line 1" in summary["error"], summary["error"])


@test
def what_a_killed_driver_left_counts():
    line = '{"sent_ns": 0, "end_ns": 1000000000, "end": "ok", "output_tokens": 8}'
    summary = command(f"""printf '%s\\n' '{{{{"schema": "moescope/requests/1"}}}}' """
                      f"""'{line.replace("{", "{{").replace("}", "}}")}' """
                      "> $MOESCOPE_BENCH_REQUESTS; printf '{{\"sent' >> $MOESCOPE_BENCH_REQUESTS; "
                      "kill -9 $$", status=1)
    check("signal 9" in summary["error"] or "no memory left" in summary["error"], summary["error"])
    equal(summary["metrics"]["tokens_per_second"], 8)
    check(any("ends within a line" in note for note in summary["notes"]), summary["notes"])


@test
def failures_are_named():
    for name, line, words in (
            ("status", "echo one; echo two >&2; exit 3", ("failed with status 3", "one / two")),
            ("crash", "echo before; kill -SEGV $$", ("signal 11", "Segmentation fault", "before")),
            ("killed", "kill -KILL $$", ("killed", "memory")),
            ("missing", "/nowhere/program {batch_size}", ("status 127", "/nowhere/program")),
            ("brace", "echo {batchsize}", ("did you mean {batch_size}?",)),
            ("odd", "printf 'a\\033[2Jb\\377\\n'; exit 1", ("a?[2Jb?",))):
        summary = command(line, status=1, name=name)
        equal(summary["status"], "failed")
        for word in words:
            check(word in summary["error"], f"{name}: no {word!r} in {summary['error']!r}")


@test
def a_hang_is_a_timeout():
    summary = command("trap '' TERM; echo begun; sleep 600 & wait; sleep 600", "--time-limit-s",
                      "0.5", status=1)
    equal(summary["status"], "timeout")
    check("0.5 s" in summary["error"], summary["error"])
    check(summary["duration_s"] < 60, summary["duration_s"])
    with open("results/a/experiment.log", encoding="utf-8") as file:
        check("begun\n" in file.read())


@test
def a_missing_model_is_a_failure():
    summary = bench("--model-path", "/nowhere/model", status=1)
    equal(summary["status"], "failed")
    equal(summary["model"], "model")
    check("/nowhere/model" in summary["error"] and "tinymoe --save" in summary["error"], summary)
    with open("results/a/experiment.log", encoding="utf-8") as file:
        check("/nowhere/model" in file.read())


def gone(pid):
    """Waits for the end of a process that is not our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], 60)[0])
    finally:
        os.close(fd)


def stopped(sig):
    """A signal to a bench whose program has begun; its status, and the program's processes."""
    os.mkfifo("ready")
    ready = os.open("ready", os.O_RDWR)
    with subprocess.Popen([MOESCOPE, "bench", "--experiment-name", "a", "--engine", "command",
                           "--command", "sleep 600 & echo $$ $! > ready; wait"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=environment()) as process:
        try:
            check(select.select([ready], [], [], 60)[0], "the program does not begin")
            pids = [int(word) for word in os.read(ready, 100).split()]
            process.send_signal(sig)
            process.wait(timeout=60)
        finally:
            process.kill()
            os.close(ready)
    return process.returncode, pids


@test
def killed_leaves_no_program():
    _, pids = stopped(signal.SIGKILL)
    for pid in pids:
        check(gone(pid), "the program lives on")
    check(not os.path.exists("results/a/summary.json"), "not complete")


@test
def interrupted_ends_the_program():
    status, pids = stopped(signal.SIGTERM)
    equal(status, 1)
    with open("results/a/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    equal((summary["status"], summary["error"]), ("failed", "interrupted."))
    for pid in pids:
        check(gone(pid), "the program lives on")


@test
def a_server_that_runs_is_loaded():
    with subprocess.Popen([sys.executable, ROOT / "tests/lab/mock_server.py", "--until-eof",
                           "--ttft-ms", "5", "--gap-ms", "1", "--truth", "truth.jsonl"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().split()[1]
            words = ("--engine", "openai", "--url", f"http://127.0.0.1:{port}", "--requests", 6,
                     "--concurrency", 2, "--max-tokens", 4, "--repeats", 2)
            summary = bench(*words, "--api-key", "$KEY", env=environment(KEY="k-1"))
            unset = bench(*words, "--api-key", "$KEY", status=1, name="b")
            check("KEY" in unset["error"] and "not set" in unset["error"], unset["error"])
            late = bench(*words[:4], "--requests", 100000, "--time-limit-s", 1, status=1, name="c")
            equal(late["status"], "timeout")
            check(late["metrics"]["requests_ok"] < 100000)
        finally:
            server.stdin.close()
            server.wait(timeout=60)
    metrics = summary["metrics"]
    equal((metrics["requests"], metrics["requests_ok"], metrics["output_tokens"]), (12, 12, 48))
    equal(metrics["serving"]["vllm"]["requests_by_end"]["ok"], 12)
    with open("truth.jsonl", encoding="utf-8") as file:
        told = [json.loads(line) for line in file]
    # One request of the first experiment was its warm-up.
    equal(sum(r["output_tokens"] for r in told[:13]), 13 * 4)


def most_at_once(name):
    events = sorted([(r["sent_ns"], 1) for r in requests(name)] +
                    [(r["end_ns"], -1) for r in requests(name)])
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


@test
def arrivals_by_a_clock_have_no_limit_by_default():
    with subprocess.Popen([sys.executable, ROOT / "tests/lab/mock_server.py", "--until-eof",
                           "--ttft-ms", "300"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            url = f"http://127.0.0.1:{server.stdout.readline().split()[1]}"
            bench("--engine", "openai", "--url", url, "--requests", 8, "--max-tokens", 2,
                  "--arrival", "constant", "--request-rate", 100)
            check(most_at_once("a") > 2, most_at_once("a"))
            # Nor does the effective configuration make one of it.
            bench("--config", "results/a/config.yaml", name="b")
            check(most_at_once("b") > 2, most_at_once("b"))
            bench("--config", "results/a/config.yaml", "--concurrency", 2, name="c")
            equal(most_at_once("c"), 2)
            bench("--config", "results/a/config.yaml", "--arrival", "closed", name="d")
            equal(most_at_once("d"), 1)
        finally:
            server.stdin.close()
            server.wait(timeout=60)


@test
def a_model_in_a_folder_is_estimated():
    os.mkdir("Llama-3-8B")
    with open("Llama-3-8B/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
                   "intermediate_size": 14336, "torch_dtype": "bfloat16"}, file)
    memory = command("true", "--model-path", "Llama-3-8B/")["metrics"]["memory"]
    equal(memory["parameters"], 8030261248)
    check(memory["estimated_bytes"] > 2 * 8030261248)
    os.unlink("Llama-3-8B/config.json")
    memory = command("true", "--model-path", "Llama-3-8B", name="b")["metrics"]["memory"]
    equal(memory["estimated_bytes"], None)
    check("config.json" in memory["estimated_bytes_reason"], memory)


@test
def results_are_not_replaced_by_accident():
    bench("--max-tokens", 2)
    one_sentence(moescope("bench", "--experiment-name", "a", "--max-tokens", 3), 1,
                 "already has results", "--force")
    equal(bench("--max-tokens", 3, "--force")["metrics"]["output_tokens"], 3)
    # Of an earlier try nothing passes for a result.
    summary = command("exit 1", "--force", status=1)
    check("requests.jsonl" not in summary["files"], summary["files"])


@test
def names_are_made_of_model_mode_and_time():
    r = moescope("bench", "--max-tokens", 2, "--model-name", "org/My Model", "--output-dir", "x/y")
    equal(r.status, 0, r)
    (name,) = os.listdir("x/y")
    check(re.fullmatch(r"org_My_Model_inference_only_\d{8}_\d{6}", name), name)
    check(name in r.out and "tokens/s" in r.out and "TTFT" in r.out, r.out)
    for model, wanted in (("模型", "模型"), ("a" + "é" * 90, "a" + "é" * 63), ("..", "_.")):
        r = moescope("bench", "--max-tokens", 2, "--model-name", model, "--output-dir", "z")
        equal(r.status, 0, r)
        (name,) = os.listdir("z")
        check(name.startswith(wanted + "_inference_only_"), name)
        shutil.rmtree("z")


@test
def keys_do_not_leak():
    secret = "sk-very-secret"
    command("true", "--api-key", secret)
    for path in pathlib.Path("results/a").rglob("*"):
        if path.is_file():
            check(secret.encode() not in path.read_bytes(), path)
    command("true", "--api-key", "$KEY", "--force")
    check('api_key: "$KEY"' in pathlib.Path("results/a/config.yaml").read_text(encoding="utf-8"))


@test
def wrong_words_are_usage():
    for words, says in (
            (("--max-tokens", "0"), "'max_tokens' cannot be 0"),
            (("--profile-mode", "nsis"), "inference_only, trace, full"),
            (("--engine", "bultin"), "did you mean 'builtin'?"),
            (("--engine", "command"), "needs a command"),
            (("--batchsize", "1"), "did you mean '--batch-size'?"),
            (("--goodput", "ttft"), "ttft"),
            (("--config", "none.yaml"), "none.yaml")):
        one_sentence(moescope("bench", *words), 2, says)
    check(not os.path.exists("results"), "nothing was run")


@test
def wrong_files_are_usage():
    with open("a.yaml", "w", encoding="utf-8") as file:
        file.write("max_tokens: 5\nbatchsize: 2\n")
    r = moescope("bench", "--config", "a.yaml")
    if "no YAML" not in r.err:
        one_sentence(r, 2, "a.yaml:2:1", "did you mean 'batch_size'?")


@test
def nowhere_to_write_is_a_failure():
    with open("results", "w", encoding="utf-8"):
        pass
    one_sentence(moescope("bench", "--max-tokens", "2"), 1, "results")


@test
def parameters_are_options_and_documented():
    rows = json.loads(moescope("bench", "--list-parameters", "--json").out)["rows"]
    help_text = moescope("bench", "--help").out
    for row in rows:
        dashed = row["key"].replace("_", "-")
        if row["part"] != "a sweep":
            check(f"--{dashed}" in help_text or f"--no-{dashed}" in help_text, row["key"])
    r = subprocess.run([sys.executable, ROOT / "tools/parameters_doc.py", "--check"], check=False,
                       capture_output=True, text=True, env=environment(MOESCOPE=MOESCOPE))
    equal(r.returncode, 0, r.stderr)
    listed = moescope("bench", "--list-engines").out
    check("builtin" in listed and "command" in listed, listed)


if __name__ == "__main__":
    main()
