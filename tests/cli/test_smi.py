# SPDX-License-Identifier: Apache-2.0
"""smi: the lines of a scripted NVML and of a recorded run, and how the command ends."""

import os
import pathlib
import re
import signal
import subprocess
import sys

from cli import (MOESCOPE, PATIENCE_S, Skip, check, environment, equal, main, moescope, need,
                 one_sentence, record, test)

BUILD = os.path.dirname(MOESCOPE)
LIBRARY = os.path.join(BUILD, "libmoescope.so")
NVML, CUDA, CUPTI = (os.path.join(BUILD, "tests", f"libfake_{name}.so")
                     for name in ("nvml", "cuda", "cupti"))
HEADER = ("timestamp, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], "
          "memory.free [MiB], temperature.gpu")
TIME = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}"

# A program that uses CUDA as far as the profiler can tell; it ends when it was read n times.
PROGRAM = """
import ctypes, os, sys
class Fake(ctypes.Structure):
    _fields_ = [("fail_init", ctypes.c_void_p),
                ("wait_readings", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_uint))]
probe = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
assert probe.InitializeInjection() == 1
assert Fake.in_dll(ctypes.CDLL(os.environ["MOESCOPE_NVML"]), "fake_nvml").wait_readings(3)
"""


def fakes(**more):
    need(NVML)
    return environment(MOESCOPE_NVML=NVML, TZ="UTC", **more)


def smi(*args, **env):
    return moescope("smi", *args, env=fakes(**env))


@test
def default_columns_are_those_of_nvidia_smi():
    r = smi("--count", 2, "--interval", "10ms")
    equal(r.status, 0, r)
    lines = r.out.splitlines()
    equal(lines[0], HEADER)
    for line, name in zip(lines[1:], ("Scripted GPU, 37 %, 12 %, 4768 MiB, 71525 MiB, 61",
                                      "Scripted GPU one, 47 %, 22 %, 4768 MiB, 71525 MiB, 62") * 2):
        check(re.fullmatch(f"{TIME}, {re.escape(name)}", line), line)
    equal(len(lines), 5)


@test
def the_options_of_nvidia_smi_work():
    names = HEADER.replace(" [%]", "").replace(" [MiB]", "").replace(", ", ",")
    r = smi(f"--query-gpu={names}", "--format=csv")
    equal((r.status, r.out.splitlines()[0], len(r.out.splitlines())), (0, HEADER, 3), r)
    r = smi("--query-gpu=index,power.draw", "--format=csv,noheader,nounits", "-i", "0")
    equal((r.status, r.out), (0, "0, 312.50\n"), r)
    r = smi("--query-gpu=index", "-l", "0.01", "-n", "2", "-i", "1", "-f", "out.csv")
    equal((r.status, r.out, pathlib.Path("out.csv").read_text(encoding="utf-8")),
          (0, "", "index\n1\n1\n"), r)


@test
def every_column_has_a_value_or_says_that_it_has_none():
    listed = [line.split()[0] for line in smi("--help-columns").out.splitlines()]
    check(len(listed) == len(set(listed)) > 20, listed)
    r = smi("-n", 1, "-c", ",".join(listed))
    equal(r.status, 0, r)
    header, first, second = (line.split(", ") for line in r.out.splitlines())
    values = dict(zip(listed, zip(first, second)))
    equal({len(header), len(first), len(second)}, {len(listed)})
    for name, wanted in {
            "index": ("0", "1"),
            "uuid": ("GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0",
                     "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1"),
            "pci.bus_id": ("00000000:1A:00.0", "00000000:1B:00.0"),
            "driver_version": ("580.65.06", "580.65.06"),
            "mig.mode.current": ("[N/A]", "Disabled"),
            "memory.total": ("76866 MiB", "76293 MiB"),
            "memory.reserved": ("572 MiB", "[N/A]"),
            "power.draw": ("312.50 W", "[N/A]"),
            "power.limit": ("700.00 W", "[N/A]"),
            "clocks.sm": ("1980 MHz", "1979 MHz"),
            "clocks.mem": ("2619 MHz", "2618 MHz"),
            "clocks.max.sm": ("2100 MHz", "2101 MHz"),
            "clocks_event_reasons.active": ("0x0000000000000004", "0x0000000000000005"),
            "ecc.errors.corrected.volatile.total": ("3", "[N/A]"),
            "ecc.errors.uncorrected.volatile.total": ("1", "[N/A]"),
            "pcie.link.gen.current": ("5", "4"),
            "pcie.link.width.current": ("16", "8"),
            "fan.speed": ("[N/A]", "41 %")}.items():
        equal(values[name], wanted, name)
    check("clocks.current.sm [MHz]" in header and "fan.speed [%]" in header, header)


@test
def lines_come_as_they_are_made_and_a_signal_ends_them():
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen([MOESCOPE, "smi", "-c", "index", "--interval", "10ms", "-d", "1"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=fakes()) as process:
            equal([process.stdout.readline() for _ in range(4)], ["index\n"] + ["1\n"] * 3)
            process.send_signal(number)
            rest, err = process.communicate(timeout=PATIENCE_S)
        equal((process.returncode, err), (0, ""))
        check(re.fullmatch(r"(1\n)*", rest), rest)


@test
def a_signal_ends_a_long_wait():
    with subprocess.Popen([MOESCOPE, "smi", "-c", "index", "--interval", "3600s"],
                          stdout=subprocess.PIPE, text=True, env=fakes()) as process:
        equal([process.stdout.readline() for _ in range(3)], ["index\n", "0\n", "1\n"])
        process.terminate()
        equal(process.communicate(timeout=PATIENCE_S)[0], "")
    equal(process.returncode, 0)


@test
def a_closed_pipe_ends_it():
    with subprocess.Popen([MOESCOPE, "smi", "--interval", "1ms"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=fakes()) as process:
        equal(process.stdout.readline(), HEADER + "\n")
        process.stdout.close()
        err = process.stderr.read()
    equal((process.wait(timeout=PATIENCE_S), err), (0, ""))


@test
def what_is_missing_is_said():
    one_sentence(smi(FAKE_NVML_INIT=9), 1, "Driver Not Loaded", "nvidia-smi")
    one_sentence(smi(FAKE_NVML_COUNT=0), 1, "no GPU", "--gpus all")
    one_sentence(smi("-d", "2"), 1, "no device '2'")
    one_sentence(smi("-n", 1, "-o", "no/such/place"), 1, "no/such/place", "--output")
    one_sentence(moescope("smi", env=environment(MOESCOPE_NVML="/nonexistent")), 1,
                 "MOESCOPE_NVML", "'/nonexistent'", "unset it")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w", encoding="utf-8") as full:
            r = moescope("smi", "-n", 1, env=fakes(), stdout=full)
        equal(r.status, 1, r)
        check("cannot write to standard output: No space left" in r.err, r)


@test
def a_build_without_gpu_support_says_so():
    if "off: this build" not in moescope("doctor").out:
        raise Skip("this build has GPU support")
    one_sentence(moescope("smi"), 1, "no GPU support", "tools/cuda_headers.sh --fetch")


@test
def wrong_usage_is_said():
    one_sentence(smi("-c", "memory.usd"), 2, "did you mean 'memory.used'?")
    one_sentence(smi("-c", "index,"), 2, "empty name")
    one_sentence(smi("--interval", "1h"), 2, "1s or 500ms")
    one_sentence(smi("--interval", "0"), 2, "from 1ms")
    one_sentence(smi("--format", "xml"), 2, "csv, noheader and nounits")
    one_sentence(smi("--format", "noheader"), 2, "needs csv")
    one_sentence(smi("--query-gpu=index", "-c", "index"), 2, "the same")
    one_sentence(smi("-l", "1", "--interval", "1s"), 2, "the same")


@test
def a_recorded_run_has_the_same_lines():
    need(CUPTI)
    if "off: this build" in moescope("doctor").out:
        raise Skip("this build has no GPU collection")
    r = moescope("run", "-q", "--level", "steps", "-o", "a.mscope", "--", sys.executable, "-c",
                 PROGRAM, env=fakes(MOESCOPE_CUDA=CUDA, MOESCOPE_CUPTI=CUPTI))
    equal(r.status, 0, r)
    r = moescope("smi", "a.mscope")
    equal(r.status, 0, r)
    lines = r.out.splitlines()
    equal(lines[0], HEADER)
    check(re.fullmatch(f"{TIME}, Scripted GPU, 37 %, 12 %, 4768 MiB, 71525 MiB, 61", lines[1]),
          lines)
    r = moescope("smi", "a.mscope", "-d", "1", "-n", "1", "--no-header", "-c",
                 "index,uuid,driver_version,power.draw,fan.speed,pcie.link.width.current,"
                 "memory.total,pci.bus_id")
    equal((r.status, r.out),
          (0, "1, GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1, 580.65.06, [N/A], 41 %, 8, 76293 MiB, "
              "[N/A]\n"), r)
    one_sentence(moescope("smi", "a.mscope", "-d", "7"), 1, "has no device '7'")


@test
def a_run_without_readings_says_so():
    record()
    one_sentence(moescope("smi", "a.mscope"), 1, "no device readings", "moescope doctor")
    one_sentence(moescope("smi", "b.mscope"), 1, "no run or file 'b.mscope'")


if __name__ == "__main__":
    main()
