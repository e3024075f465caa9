# SPDX-License-Identifier: Apache-2.0
"""doctor --calibrate on this processor and on a scripted GPU, and what efficiency makes of it."""

import json
import os
import pathlib
import subprocess

from cli import MOESCOPE, PATIENCE_S, check, environment, equal, main, moescope, need, record, test

FOLDER = os.path.dirname(MOESCOPE)
CALIBRATE = os.path.join(FOLDER, "moescope-calibrate")
FAKE = os.path.join(FOLDER, "tests", "libfake_calibrate.so")


def lines(*args, **env):
    r = subprocess.run([CALIBRATE, *args], capture_output=True, text=True, timeout=PATIENCE_S, check=True,
                       env=environment(**{"MOESCOPE_CUDA": FAKE, "MOESCOPE_CUBLASLT": FAKE, **env}))
    return {line["key"]: line for line in map(json.loads, r.stdout.splitlines())}


def near(got, expected):
    check(abs(got / expected - 1) < 1e-4, got, expected)


@test
def a_gpu_of_known_speed():
    need(FAKE)
    rows = lines("gpu")
    # The read-only kernel is faster than the one that writes too: the better one counts.
    for key, rate in (("memory_bytes_per_s", 4e12), ("copy_bytes_per_s", 1.5e12),
                      ("htod_pinned_bytes_per_s", 50e9), ("dtoh_pinned_bytes_per_s", 40e9),
                      ("bf16_flops_per_s", 800e12), ("fp16_flops_per_s", 790e12),
                      ("tf32_flops_per_s", 400e12), ("fp32_flops_per_s", 50e12),
                      ("fp64_flops_per_s", 60e12)):
        near(rows[key]["value"], rate)
        check(rows[key]["low"] <= rows[key]["value"] <= rows[key]["high"], rows[key])
        equal(rows[key]["repeats"], 7)
        equal(rows[key]["name"], 'NVIDIA Scripted "GPU"')
    check("no product of this type" in rows["fp8_flops_per_s"]["absent"], rows)
    for way in ("htod", "dtoh"):
        check(rows[f"{way}_pageable_bytes_per_s"]["value"] > 0, rows)


@test
def what_fails_is_said_and_the_rest_is_measured():
    need(FAKE)
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cuModuleLoadData")
    equal(rows["memory_bytes_per_s"]["absent"], "cuModuleLoadData: CUDA_ERROR_OUT_OF_MEMORY")
    near(rows["bf16_flops_per_s"]["value"], 800e12)
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cuMemAllocHost_v2")
    equal(rows["htod_pinned_bytes_per_s"]["absent"], "cuMemAllocHost_v2: CUDA_ERROR_OUT_OF_MEMORY")
    check(rows["htod_pageable_bytes_per_s"]["value"] > 0, rows)
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cublasLtCreate")
    equal(rows["bf16_flops_per_s"]["absent"], "cublasLtCreate: status 2")
    near(rows["copy_bytes_per_s"]["value"], 1.5e12)
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cublasLtMatmul")
    equal(rows["fp32_flops_per_s"]["absent"], "cublasLtMatmul: status 2")
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cuMemcpyHtoDAsync_v2")
    equal(rows["htod_pinned_bytes_per_s"]["absent"],
          "the measured call: CUDA_ERROR_OUT_OF_MEMORY")
    near(rows["dtoh_pinned_bytes_per_s"]["value"], 40e9)
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cuInit")
    equal(rows[""]["absent"], "cuInit: CUDA_ERROR_OUT_OF_MEMORY")
    rows = lines("gpu", FAKE_CALIBRATE_FAIL="cuDevicePrimaryCtxRetain")
    equal(list(rows), ["memory_bytes_per_s"])
    rows = lines("gpu", MOESCOPE_CUBLASLT="/nowhere.so")
    check("no libcublasLt" in rows["bf16_flops_per_s"]["absent"], rows)


@test
def doctor_keeps_what_it_measured():
    need(FAKE)
    env = environment(MOESCOPE_CUDA=FAKE, MOESCOPE_CUBLASLT=FAKE, MOESCOPE_CACHE="cache")
    r = moescope("doctor", "--calibrate", "--json", env=env)
    rows = {row["name"]: row for row in json.loads(r.out)["rows"]}
    equal(rows["peaks"]["state"], "ok", rows["peaks"])
    check("kept for 2 devices in cache/peaks" in rows["peaks"]["text"], rows["peaks"])
    check("bf16 800 TFLOP/s" in rows["peaks gpu 0"]["text"], rows["peaks gpu 0"])
    check("memory 4.00 TB/s" in rows["peaks gpu 0"]["text"], rows["peaks gpu 0"])
    near(rows["peaks gpu 0"]["memory_bytes_per_s"], 4e12)
    check("not measured: fp8 (cuBLASLt has no product" in rows["peaks gpu 0"]["fix"], rows)
    kept = pathlib.Path("cache/peaks").read_text().splitlines()
    equal(len(kept), 2, kept)
    check(kept[0].startswith("moescope-peaks 1 cpu=1 cores="), kept)
    check(" bf16_flops_per_s=8e+14 " in kept[1], kept)
    check(kept[1].endswith('name=NVIDIA Scripted "GPU"'), kept)
    # The processor's peaks give a run on it an MFU; without them it says what to do.
    record()
    total = json.loads(moescope("efficiency", "a.mscope", "--json", env=env).out)["total"]
    check(0 < total["mfu_pct"] < 100, total)
    equal((total["dtype"], total["devices"][0]["calibrated"]), ("fp32", True), total)
    total = json.loads(moescope("efficiency", "a.mscope", "--json",
                                env=environment(MOESCOPE_CACHE="empty")).out)["total"]
    equal(total["mfu_pct"], None)
    check("doctor --calibrate" in total["mfu_pct_reason"], total)


@test
def doctor_without_a_place_to_keep_it():
    need(FAKE)
    env = environment(MOESCOPE_CUDA="/nowhere.so", MOESCOPE_CACHE="not/there/at/all")
    r = moescope("doctor", "--calibrate", "--json", env=env)
    equal(r.status, 1, r)
    rows = {row["name"]: row for row in json.loads(r.out)["rows"]}
    equal(rows["peaks"]["state"], "failed")
    check("MOESCOPE_CACHE" in rows["peaks"]["fix"], rows["peaks"])
    check("no NVIDIA driver" in rows["calibration"]["text"], rows["calibration"])


@test
def bad_peaks_do_no_harm():
    record()
    os.mkdir("cache")
    pathlib.Path("cache/peaks").write_bytes(b"\xff\x00\nmoescope-peaks 1 name=\n" + b"x" * 9000)
    r = moescope("efficiency", "a.mscope", env=environment(MOESCOPE_CACHE="cache"))
    equal(r.status, 0, r)
    check("MFU n/a" in r.out, r)


if __name__ == "__main__":
    main()
