# SPDX-License-Identifier: Apache-2.0
"""The binding itself: import, where the library is found, the errors of a wrong one."""
import os
import re
import shutil
import subprocess
import sys

import pytest

import moescope
from moescope import _library, errors

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(moescope.__file__)))


def child(code, **variables):
    env = {**os.environ, "PYTHONPATH": PACKAGE, **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def test_import_is_light():
    """At most 50 ms of CPU time beyond an empty program, and nothing heavy; the best of five."""
    code = ("import time, sys; a = time.process_time(); import moescope; "
            "b = time.process_time(); assert not {'torch', 'numpy', 'pandas', 'ctypes'} & "
            "set(sys.modules), sys.modules.keys(); print((b - a) * 1e3)")
    times = [float(child(code).stdout) for _ in range(5)]
    assert min(times) <= 50, times


def test_every_public_name_is_there():
    pytest.importorskip("torch")
    for name in moescope.__all__:
        assert getattr(moescope, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        moescope.nothing


def test_steps_and_ranges_reach_the_run(tmp_path):
    code = f"""
import moescope
moescope.start({str(tmp_path / 'a.mscope')!r})
for _ in range(3):
    with moescope.range("outer", phase="forward"):
        with moescope.range("inner", layer=2, expert=1):
            moescope.mark("here")
    moescope.step(7)
moescope.info("model", "none")
moescope.stop()
"""
    done = child(code)
    assert done.returncode == 0, done.stderr
    steps = _library.table("steps", str(tmp_path / "a.mscope"))["rows"]
    assert [(row["step"], row["tokens"]) for row in steps] == [(0, 7), (1, 7), (2, 7)]
    ops = _library.table("ops", str(tmp_path / "a.mscope"))["rows"]
    assert {row["name"]: row["count"] for row in ops}["inner"] == 3


def test_start_where_nothing_can_be_written():
    done = child("import moescope; moescope.start('/proc/none.mscope')")
    assert "StartError" in done.stderr and "choose another run directory" in done.stderr


def test_missing_library(tmp_path):
    done = child("import moescope; moescope.step()", MOESCOPE_LIBRARY=str(tmp_path / "no.so"))
    assert "LibraryNotFound" in done.stderr and "MOESCOPE_LIBRARY" in done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_library_of_another_version(tmp_path):
    source = tmp_path / "other.c"
    source.write_text('const char *moescope_version(void) { return "9.9.9"; }\n')
    library = tmp_path / "libmoescope.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = child("import moescope; moescope.step()", MOESCOPE_LIBRARY=str(library))
    assert "LibraryMismatch" in done.stderr and "version 9.9.9" in done.stderr


def test_a_package_copied_by_hand_goes_by_its_functions(tmp_path):
    """It has no version of its own; the functions of a library tell all the same."""
    shutil.copytree(os.path.join(PACKAGE, "moescope"), tmp_path / "moescope",
                    ignore=shutil.ignore_patterns("_native", "__pycache__"))
    library = _library.load()._name
    done = child("import moescope; print(moescope.__version__, moescope.recording())",
                 PYTHONPATH=str(tmp_path), MOESCOPE_LIBRARY=library)
    assert done.stdout == "unknown False\n", done.stderr


def test_tool_errors_are_its_own(tmp_path):
    with pytest.raises(errors.ToolError, match="missing.mscope"):
        _library.table("steps", str(tmp_path / "missing.mscope"))


@pytest.mark.parametrize("call, kind, words", [
    (lambda: moescope.step("x"), TypeError, "tokens is 'x'; give a whole number"),
    (lambda: moescope.step(-1), ValueError, "tokens is -1; give 0 or more"),
    (lambda: moescope.counter("loss", "y"), TypeError, "value is 'y'; give a number"),
    (lambda: moescope.mark(None), TypeError, "text is None; give a string"),
    (lambda: moescope.info("seed", 1), TypeError, "value is 1; give a string"),
    (lambda: moescope.range("a", layer="b").__enter__(), TypeError, "layer is 'b'"),
    (lambda: moescope.range("a", phase="fwd").__enter__(), ValueError, "'fwd' is not one of forward"),
    (lambda: moescope.start("a\0b"), ValueError, "zero byte"),
    (lambda: moescope.start("a", "much"), ValueError, "level 'much' is not one of counts"),
])
def test_wrong_arguments_are_named(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_why_a_run_does_not_start(tmp_path):
    (tmp_path / "file").write_text("")
    for name, words in (("none/run", "there is no folder '.*none'; make it"),
                        ("file", "'.*file' is there already and is not a run"),
                        ("file/run", "a part of the path .* is a file")):
        with pytest.raises(errors.StartError) as caught:
            moescope.start(str(tmp_path / name))
        assert re.search(words, str(caught.value)) and "Errno" not in str(caught.value)
        assert caught.value.errno


def test_requests_and_their_tokens(tmp_path):
    """Of a generate loop, and of one by hand; the tool counts what came."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, num_local_experts=2, num_experts_per_tok=1)
    model = transformers.MixtralForCausalLM(config).eval()
    inputs = torch.ones(1, 7, dtype=torch.long)
    run = moescope.start(str(tmp_path / "a.mscope"))
    with moescope.request(prompt_tokens=inputs.shape[1]) as r:
        model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=5,
                       min_new_tokens=5, do_sample=False, pad_token_id=0, streamer=r)
    with moescope.request() as r:
        r.token()
    moescope.stop()
    found = _library.table("report", run)["inference"]
    rows = sorted(found["rows"], key=lambda row: row["request"])
    assert [row["tokens"] for row in rows] == [5, 1]
    assert rows[0]["prompt_tokens"] == 7
    assert rows[0]["tpot_ns"] > 0 and rows[0]["ttft_ns"] > 0
    assert rows[1]["tpot_ns"] is None
