# SPDX-License-Identifier: Apache-2.0
"""Experiments from Python: configurations, one run, a sweep, pictures. The engine is the builtin one."""
import json
import os
import re
import subprocess

import pytest

from moescope import MoescopeError, ToolError
from moescope import _library as lib
from moescope.lab import BatchRunner, ConfigManager, ExperimentConfig, ExperimentRunner, Visualizer
from moescope.lab import config as config_module
from moescope.lab import runner as runner_module

PNG = b"\x89PNG\r\n\x1a\n"
TINY = dict(max_tokens=6, warmup=0)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------------------------ configuration

def test_names_and_defaults_are_the_tools():
    config = ExperimentConfig()
    expected = {"prompt": "Hello, how are you?", "max_tokens": 100, "temperature": 0.7,
                "batch_size": 1, "tensor_parallel_size": 1, "profile_mode": "inference_only",
                "model": None, "experiment_name": None, "server_args": [], "rescale": True,
                "environment": {}}
    assert {key: getattr(config, key) for key in expected} == expected
    assert config.counter_options == {"launch_count": "10", "kernel_count": "100", "set": "full"}
    assert set(config.to_dict()) == set(config_module.parameters()) and config.given() == {}
    config.server_args.append("x")  # a copy
    assert ExperimentConfig().server_args == []


def test_unknown_names_have_a_suggestion():
    with pytest.raises(TypeError, match="'max_token'; did you mean 'max_tokens'"):
        ExperimentConfig(max_token=3)
    config = ExperimentConfig()
    with pytest.raises(AttributeError, match="did you mean 'batch_size'"):
        config.batchsize = 2
    with pytest.raises(AttributeError, match="batch_size"):
        config.batchsize


def test_other_names_are_accepted():
    config = ExperimentConfig(ncu_options={"kernel_name": "k"}, base_prompt="Hi")
    assert config.counter_options == config.ncu_options == {"kernel_name": "k"}
    assert config.prompt == "Hi" and "base_prompt" not in config.given()


VALUES = {
    "prompt": "請 \"quoted\" 'single' # no: comment\n\ttab \\ back: {brace} [list]",
    "model": "yes", "max_tokens": 300, "temperature": 0.25, "profile_mode": "trace",
    "server_args": ["--a", "b c", "d,e", ""], "environment": {"A": "1 2", "B": "x=y"},
    "ignore_eos": True, "rescale": False, "seed": 2**53, "request_rate": 1e-3,
}


def test_a_file_reads_back_as_it_was():
    config = ExperimentConfig(**VALUES)
    ConfigManager.save_config(config, "a.yaml")
    again = ConfigManager.load_config("a.yaml")
    assert again.given() == VALUES and again == config
    assert os.listdir(".") == ["a.yaml"]


def test_the_file_is_yaml_as_others_read_it():
    yaml = pytest.importorskip("yaml")
    ConfigManager.save_config(ExperimentConfig(**VALUES), "a.yaml")
    with open("a.yaml", encoding="utf-8") as file:
        assert yaml.safe_load(file) == VALUES


def test_numpy_and_paths(tmp_path):
    numpy = pytest.importorskip("numpy")
    config = ExperimentConfig(batch_size=numpy.int64(4), model_path=tmp_path)
    ConfigManager.save_config(config, tmp_path / "a.yaml")
    again = ConfigManager.load_config(tmp_path / "a.yaml")
    assert again.batch_size == 4 and again.model_path == str(tmp_path)
    with pytest.raises(MoescopeError, match="'prompt' cannot be"):
        ConfigManager.save_config(ExperimentConfig(prompt=object()), "b.yaml")
    assert not os.path.exists("b.yaml")


def test_a_wrong_file_is_told_with_its_place():
    with open("bad.yaml", "w", encoding="utf-8") as file:
        file.write("max_tokens: 5\nbatch_sise: 2\n")
    with pytest.raises(ToolError, match=r"bad\.yaml:2:1.*batch_size"):
        ConfigManager.load_config("bad.yaml")
    with pytest.raises(ToolError, match="nowhere.yaml"):
        ConfigManager.load_config("nowhere.yaml")


def test_keys_stay_with_their_owner():
    with open("key.yaml", "w", encoding="utf-8") as file:
        file.write('api_key: "secret"\n')
    with pytest.raises(MoescopeError, match=r"\$NAME"):
        ConfigManager.load_config("key.yaml")
    ConfigManager.save_config(ExperimentConfig(api_key="$MY_KEY"), "named.yaml")
    assert ConfigManager.load_config("named.yaml").api_key == "$MY_KEY"


# ------------------------------------------------------------------------------------------ one run

def recount(directory):
    """Tokens per second from requests.jsonl alone."""
    with open(os.path.join(directory, "requests.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    measured = [line for line in lines if "sent_ns" in line and not line["warmup"]]
    tokens = sum(line["output_tokens"] for line in measured)
    seconds = (max(line["end_ns"] for line in measured) -
               min(line["sent_ns"] for line in measured)) / 1e9
    return tokens, seconds


def test_a_run():
    runner = ExperimentRunner(ExperimentConfig(batch_size=2, experiment_name="one", **TINY))
    runner.add_analyzer("files", lambda directory, results: sorted(os.listdir(directory)))
    runner.add_analyzer("broken", lambda directory, results: 1 / 0)
    results = runner.run()
    assert results["status"] == "success" and results["error"] is None
    assert results["directory"] == os.path.abspath("results/one")
    tokens, seconds = recount(results["directory"])
    assert tokens == 12 == results["metrics"]["output_tokens"]
    assert results["metrics"]["tokens_per_second"] == pytest.approx(tokens / seconds, rel=1e-6)
    assert "summary.json" in results["analyses"]["files"]
    assert results["analyses"]["broken"] == {"error": "ZeroDivisionError: division by zero"}


def test_a_failed_run_is_a_result():
    runner = ExperimentRunner(ExperimentConfig(engine="command", command="echo oops; exit 3", **TINY))
    runner.add_analyzer("never", lambda directory, results: pytest.fail("an analysis of a failure"))
    results = runner.run()
    assert results["status"] == "failed" and "3" in results["error"]
    with open(os.path.join(results["directory"], "experiment.log"), encoding="utf-8") as file:
        assert "oops" in file.read()


def test_what_cannot_run_is_an_error():
    with pytest.raises(ToolError, match="'max_tokens' needs a whole number, not 'many'"):
        ExperimentRunner(ExperimentConfig(max_tokens="many")).run()
    with pytest.raises(ToolError, match="no engine 'biultin'; did you mean 'builtin'"):
        ExperimentRunner(ExperimentConfig(engine="biultin")).run()
    assert not os.path.exists("results")


def test_the_transformers_engine_runs_in_this_python():
    pytest.importorskip("transformers")
    results = ExperimentRunner(ExperimentConfig(
        engine="transformers", model="mixtral-tiny", batch_size=2, profile_mode="trace",
        server_args=["--device", "cpu"], **TINY)).run()
    assert results["status"] == "success", results["error"]
    tokens, seconds = recount(results["directory"])
    assert tokens == 12
    assert results["metrics"]["tokens_per_second"] == pytest.approx(tokens / seconds, rel=1e-6)
    with open(os.path.join(results["directory"], "generated_output.txt"), encoding="utf-8") as file:
        assert file.read().startswith("token ids: ")
    assert os.path.exists(os.path.join(results["directory"], "inference_script.py"))
    # The trace has what the driver told: 2 layers, 19 tokens of each of 2 prompts, then 5 forwards.
    trace = os.path.join(results["directory"], "trace.mscope")
    rows = lib.table("routing", trace)["rows"]
    assert sorted((row["layer"], row["phase"], row["tokens"]) for row in rows) == [
        (0, "decode", 10), (0, "prefill", 38), (1, "decode", 10), (1, "prefill", 38)]


# ------------------------------------------------------------------------------------------ a sweep

def test_sweep_text():
    assert runner_module.sweep_text({"batch_size": [1, 2], "ignore_eos": (True, False)}) == \
        "batch_size:1,2;ignore_eos:true,false"
    with pytest.raises(MoescopeError, match="comma"):
        runner_module.sweep_text({"prompt": ["a, b"]})
    with pytest.raises(MoescopeError, match="a list of values"):
        runner_module.sweep_text({"batch_size": "12"})


def test_a_sweep():
    batch = BatchRunner(ExperimentConfig(**TINY))
    batch.add_analyzer("name", lambda directory, results: os.path.basename(directory))
    summary = batch.run_parameter_sweep({"batch_size": [1, 2], "max_tokens": [3, 5]})
    assert (summary["total_experiments"], summary["successful"], summary["failed"]) == (4, 4, 0)
    found = set()
    for experiment in summary["experiments"]:
        assert experiment["analyses"]["name"] == experiment["name"]
        tokens, seconds = recount(experiment["directory"])
        parameters = experiment["parameters"]
        found.add((parameters["batch_size"], parameters["max_tokens"]))
        assert tokens == parameters["batch_size"] * parameters["max_tokens"]
        assert experiment["metrics"]["tokens_per_second"] == pytest.approx(tokens / seconds, rel=1e-6)
    assert found == {(1, 3), (1, 5), (2, 3), (2, 5)}
    again = BatchRunner(ExperimentConfig()).resume(summary["directory"])
    assert [e["name"] for e in again["experiments"]] == [e["name"] for e in summary["experiments"]]
    visualizer = Visualizer(summary["directory"])
    pictures = visualizer.create_all_visualizations()
    assert any("batch_size" in name for name in pictures) and not visualizer.missing
    with open(visualizer.generate_report_html(), encoding="utf-8") as file:
        page = file.read()
    assert page.count("data:image/png;base64,") == len(pictures) and "batch_size" in page


def test_a_sweep_with_failures_is_a_result():
    config = ExperimentConfig(engine="command", command="exit {max_tokens}", warmup=0)
    summary = BatchRunner(config).run_parameter_sweep({"max_tokens": [1, 2]})
    assert (summary["successful"], summary["failed"]) == (0, 2)
    assert all(e["status"] == "failed" and e["error"] for e in summary["experiments"])


def test_what_cannot_be_swept_is_an_error():
    batch = BatchRunner(ExperimentConfig(**TINY))
    with pytest.raises(ToolError, match="did you mean 'batch_size'"):
        batch.run_parameter_sweep({"batch_sise": [1]})
    with pytest.raises(ToolError, match="quick, comprehensive, scaling"):
        batch.run_preset("fast")


# ----------------------------------------------------------------------------------------- pictures

def test_pictures_of_a_trace(tmp_path):
    results = ExperimentRunner(ExperimentConfig(profile_mode="nsys", experiment_name="traced",
                                                **TINY)).run()
    assert results["status"] == "success", results["error"]
    visualizer = Visualizer(results["directory"])

    def mine(directory, path):
        assert directory == results["directory"]
        with open(path, "wb") as file:
            file.write(PNG + b"mine")
    visualizer.add_plot("mine", mine, "A <b>picture</b> of mine")
    visualizer.add_plot("broken", lambda directory, path: 1 / 0)
    made = visualizer.create_all_visualizations()
    folder = os.path.join(tmp_path, "results", "visualization")
    assert made == {name: os.path.join(folder, f"traced_{name}.png")
                    for name in ("kernel_time", "cuda_api", "dashboard", "mine")}
    for path in made.values():
        with open(path, "rb") as file:
            assert file.read(8) == PNG
    assert visualizer.missing == {"broken": "ZeroDivisionError: division by zero"}
    page_path = visualizer.generate_report_html()
    assert page_path == os.path.join(folder, "traced_report.html")
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    # All of it is in the file. Pictures as text may hold any four letters.
    words, pictures = re.subn(r'src="data:image/png;base64,[^"]*"', "", page)
    assert pictures == 4
    assert "src=" not in words and "href" not in words
    assert "A &lt;b&gt;picture&lt;/b&gt; of mine" in page and "division by zero" in page
    assert f"<td>output_tokens</td><td>{TINY['max_tokens']}</td>" in page


def test_without_a_trace_the_reason_is_told():
    results = ExperimentRunner(ExperimentConfig(prompt="<script>alert(1)</script>", **TINY)).run()
    visualizer = Visualizer(results["directory"], output_dir="pictures")
    assert visualizer.create_all_visualizations() == {}
    assert set(visualizer.missing) == {"kernel_time", "cuda_api", "dashboard"}
    with open(visualizer.generate_report_html(), encoding="utf-8") as file:
        page = file.read()
    assert "profile_mode trace" in page and "<script>" not in page
    with pytest.raises(MoescopeError, match="not a directory"):
        Visualizer("nowhere")


def test_import_costs_nothing():
    done = subprocess.run(["python3", "-c", "import sys, moescope.lab; print('torch' in sys.modules, "
                           "'ctypes' in sys.modules)"], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr
