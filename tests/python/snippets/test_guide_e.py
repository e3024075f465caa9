# SPDX-License-Identifier: Apache-2.0
"""Every command and code block of the guide of an earlier experiment framework.

What is changed, and nothing else:
- `python scripts/run_single.py` is `moescope bench --engine vllm`, `run_batch.py` is `moescope sweep`
  with the same; `vllm` is a stand-in on the PATH that takes vLLM's arguments and streams tokens of its
  own, since the guide's models have 70 billion parameters.
- The modules `profiler.config`, `.runner`, `.visualizer` are `moescope.lab.config` and so on.
- Paths are of the test's folder; where a block has no engine and a path of a model, the path is a
  checkpoint of tinymoe, the builtin engine's.
- Its `pip install` lines are not run.
"""
import glob
import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lab"))
import fake_servers  # noqa: E402

from moescope import _library as lib  # noqa: E402

BENCH, SWEEP = '"$MOESCOPE" bench --engine vllm', '"$MOESCOPE" sweep --engine vllm'
# Of each experiment: a few requests are enough to see that it ran.
FEW = " --requests 4 --warmup 0"


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """An empty folder with vLLM's stand-in on the PATH."""
    fake_servers.install(str(tmp_path / "fake"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MOESCOPE", lib.tool_path())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "fake"


@pytest.fixture
def checkpoint(tmp_path):
    tinymoe = os.path.join(os.path.dirname(lib.tool_path()), "tinymoe")
    path = tmp_path / "models" / "Qwen2.5-72B-Instruct"
    path.parent.mkdir()
    subprocess.run([tinymoe, "--steps", "1", "--layers", "1", "--width", "16", "--experts", "4",
                    "--batch", "1", "--quiet", "--save", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    return str(path)


def shell(line):
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def summary_of(pattern):
    found = glob.glob(os.path.join("results", pattern, "summary.json"))
    assert len(found) == 1, os.listdir("results")
    with open(found[0], encoding="utf-8") as file:
        return json.load(file), os.path.dirname(found[0])


def test_the_simplest_inference(machine):
    shell(f"{BENCH} --model Qwen2.5-72B-Instruct" + FEW)
    summary, directory = summary_of("Qwen2.5-72B-Instruct_inference_only_2*")
    assert summary["status"] == "success" and summary["metrics"]["output_tokens"] == 400
    for name in ("config.yaml", "experiment.log", "gpu_info.json", "generated_output.txt",
                 "metrics.json"):
        assert os.path.exists(os.path.join(directory, name)), name
    start, = fake_servers.started(machine)
    assert (start["1"], start["tensor-parallel-size"]) == ("Qwen2.5-72B-Instruct", "1")
    with pytest.raises(ProcessLookupError):  # it was stopped
        os.kill(start["pid"], 0)


def test_with_a_trace(machine):
    shell(f"""{BENCH} \\
    --model DeepSeek-R1-Distill-Llama-70B \\
    --profile-mode nsys \\
    --prompt "请解释深度学习的基本原理" \\
    --max-tokens 500""" + FEW)
    summary, directory = summary_of("DeepSeek-R1-Distill-Llama-70B_trace_2*")
    assert summary["status"] == "success" and summary["metrics"]["output_tokens"] == 2000
    assert summary["config"]["prompt"] == "请解释深度学习的基本原理"
    for name in ("trace.mscope", "trace.sqlite", "nsys_metrics.json", "nsys_summary.csv"):
        assert os.path.exists(os.path.join(directory, name)), name


def test_everything(machine):
    out = shell(f"""{BENCH} \\
    --model Qwen2.5-72B-Instruct \\
    --profile-mode nsys_ncu \\
    --batch-size 4 \\
    --tensor-parallel-size 2""" + FEW)
    summary, _ = summary_of("Qwen2.5-72B-Instruct_full_2*")
    assert summary["status"] == "success" and summary["config"]["batch_size"] == 4
    assert fake_servers.started(machine)[0]["tensor-parallel-size"] == "2"
    assert "counters" in out  # which there are none of, and it says so


def test_a_preset(machine):
    shell(f"""{SWEEP} \\
    --model Qwen2.5-72B-Instruct \\
    --preset quick \\
    --profile-mode inference_only""" + FEW)
    path, = glob.glob("results/Qwen2.5-72B-Instruct_inference_only_sweep_2*/batch_summary.json")
    with open(path, encoding="utf-8") as file:
        batch = json.load(file)
    assert (batch["total_experiments"], batch["successful"], batch["failed"]) == (4, 4, 0)
    assert {(e["parameters"]["batch_size"], e["parameters"]["max_tokens"])
            for e in batch["experiments"]} == {(1, 50), (1, 100), (2, 50), (2, 100)}


def test_a_sweep_of_ones_own(machine):
    shell(f"""{SWEEP} \\
    --model DeepSeek-R1-Distill-Llama-70B \\
    --parameter-sweep "batch_size:1,2,4;max_tokens:100,200,500" \\
    --profile-mode nsys""" + FEW)
    path, = glob.glob("results/DeepSeek-R1-Distill-Llama-70B_trace_sweep_2*/batch_summary.json")
    with open(path, encoding="utf-8") as file:
        batch = json.load(file)
    assert (batch["total_experiments"], batch["successful"]) == (9, 9)


@pytest.mark.parametrize("preset, points", [("quick", 4), ("comprehensive", 64), ("scaling", 15)])
def test_presets(preset, points):
    listed = shell(f"{SWEEP} --model m --base-prompt 'Hello, how are you?' --preset {preset} --list")
    assert len([line for line in listed.splitlines() if line.strip()[:1].isdigit()]) == points


def test_defaults_of_the_table():
    text = shell('"$MOESCOPE" bench --list-parameters --json')
    defaults = {row["key"]: row["default"] for row in json.loads(text)["rows"]}
    for key, value in (("prompt", "Hello, how are you?"), ("max_tokens", "100"),
                       ("temperature", "0.7"), ("batch_size", "1"), ("tensor_parallel_size", "1"),
                       ("profile_mode", "inference_only"), ("experiment_name", "")):
        assert defaults[key] == value, key


def test_default_configuration(checkpoint):
    os.mkdir("configs")
    with open("configs/default.yaml", "w", encoding="utf-8") as file:
        file.write(f"model_path: {checkpoint}\nmax_tokens: 20\n")
    out = shell(f"""{sys.executable} -c "
from moescope.lab.config import ConfigManager, ExperimentConfig
from moescope.lab.runner import ExperimentRunner

config = ConfigManager.load_config('configs/default.yaml')
runner = ExperimentRunner(config)
results = runner.run()
print(f'实验完成: {{results[\\"status\\"]}}')
" """)
    assert out == "实验完成: success\n"


def test_configuration_of_ones_own(tmp_path, machine):
    with open("my_experiment.yaml", "w", encoding="utf-8") as file:
        file.write(f'''# my_experiment.yaml
model_path: "{tmp_path}/models/DeepSeek-R1-Distill-Llama-70B"
model_name: "DeepSeek-R1-Distill-Llama-70B"
prompt: "请详细解释量子计算的基本原理和应用前景"
max_tokens: 1000
batch_size: 2
tensor_parallel_size: 4
profile_mode: "nsys_ncu"

ncu_options:
  kernel_name: "your_kernel_name_pattern"

# not the guide's
engine: vllm
requests: 4
''')
    from moescope.lab.config import ConfigManager
    from moescope.lab.runner import ExperimentRunner

    config = ConfigManager.load_config('my_experiment.yaml')
    runner = ExperimentRunner(config)
    results = runner.run()
    assert results["status"] == "success", results["error"]
    assert os.path.basename(results["directory"]).startswith("DeepSeek-R1-Distill-Llama-70B_full_2")
    assert results["config"]["counter_options"]["kernel_name"] == "your_kernel_name_pattern"
    assert fake_servers.started(machine)[0]["tensor-parallel-size"] == "4"


def test_from_python_and_what_comes_of_it(checkpoint):
    from moescope.lab.config import ExperimentConfig
    from moescope.lab.runner import BatchRunner, ExperimentRunner

    # 创建配置
    config = ExperimentConfig(
        model_path=checkpoint,
        prompt="分析人工智能在医疗领域的应用",
        max_tokens=300,
        profile_mode="nsys"
    )

    # 运行单次实验
    runner = ExperimentRunner(config)
    results = runner.run()
    assert results["status"] == "success", results["error"]
    assert results["metrics"]["output_tokens"] == 300

    # 批量实验
    batch_runner = BatchRunner(config)
    batch_results = batch_runner.run_parameter_sweep({
        "batch_size": [1, 2, 4],
        "max_tokens": [100, 200, 300]
    })
    assert (batch_results["total_experiments"], batch_results["successful"]) == (9, 9)

    from moescope.lab.visualizer import Visualizer

    # 为特定实验生成可视化
    viz = Visualizer(results["directory"])
    viz.create_all_visualizations()
    html_report = viz.generate_report_html()
    name = os.path.basename(results["directory"])
    for end in ("kernel_time.png", "cuda_api.png", "dashboard.png", "report.html"):
        assert os.path.exists(os.path.join("results", "visualization", f"{name}_{end}")), end
    assert html_report.endswith(f"{name}_report.html")

    pd = pytest.importorskip("pandas")
    # 加载实验结果
    with open(os.path.join(results["directory"], "nsys_metrics.json"), 'r') as f:
        metrics = json.load(f)

    # 分析top kernels
    top_kernels = metrics['summary']['top_kernels']
    for kernel in top_kernels[:5]:
        print(f"{kernel['name']}: {kernel['time_percentage']:.2f}%")

    # 加载CSV进行进一步分析
    df = pd.read_csv(os.path.join(results["directory"], "nsys_summary.csv"))
    print(df.describe())
    assert list(df.columns)[:3] == ["Kernel Name", "Time %", "Total Time (ns)"]
