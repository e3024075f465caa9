# SPDX-License-Identifier: Apache-2.0
#
# A thin front for Meson. `make demo` and `make test` work on a bare Debian 12 or Ubuntu 24.04.

BUILD ?= build
FUZZ_SECONDS ?= 600
BENCH_LARGEST ?= 10000000

.PHONY: all demo test test-all check examples gpu-test gpu-soak gpu-bench bench lab-conformance lab-servers lint \
	fuzz install deps clean portable
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@tools/deps.sh build
	meson setup $(BUILD)

# Installs what is missing (by apt) and says so; nothing, and no network, when nothing is.
deps:
	@tools/deps.sh build test lab

demo: all
	$(BUILD)/moescope demo

# ONLY=cli_sql,test_sql or ONLY=cli,asan: these tests or layers alone. ALL=1 is `make test-all`.
test:
	@tools/deps.sh build test lab
	@python3 tools/run_tests.py --build $(BUILD) $(if $(ALL),--all) $(if $(ONLY),--only $(ONLY)) \
		$(TEST_OPTIONS)

# Also what only a maintainer needs: clang-tidy over everything, the second compiler, fuzzing.
test-all:
	@$(MAKE) --no-print-directory test ALL=1

# For every commit: the unit tests, the command line's, and the quick part of lint.
check:
	@tools/deps.sh build test
	@python3 tools/run_tests.py --build $(BUILD) --quick $(TEST_OPTIONS)

# To take along, with the sources, to a machine with a GPU on which nothing can be installed.
PORTABLE ?= build-gpu
portable:
	@tools/deps.sh build
	@tools/portable.sh $(PORTABLE)

# The CUDA examples, with nvcc; says what is missing without it.
examples:
	@examples/cuda/build.sh $(BUILD)/examples

# On a machine with a GPU and PyTorch; they say why they skip on others.
gpu-test: all
	@python3 tests/gpu/check.py $(BUILD) $(GPU_TEST_OPTIONS)
	@test ! -e /dev/nvidia0 || MOESCOPE_BUILD=$(abspath $(BUILD)) python3 tests/gpu/routing_check.py
	@test ! -e /dev/nvidia0 || python3 tests/gpu/advice_check.py $(BUILD)
	@test ! -e /dev/nvidia0 || python3 tests/gpu/lab_check.py $(BUILD)
	@test ! -e /dev/nvidia0 || python3 tests/gpu/auto_check.py $(BUILD)
	@python3 tests/gpu/counters_check.py $(BUILD)

# GPU_SOAK_OPTIONS="--seconds S --lanes N --train-seconds S --only PROGRAM,... --modes MODE,...
# --kills SHARE --steps N --malloc-debug --watch-frees LOG --json FILE"
gpu-soak: all
	@python3 tests/gpu/soak.py $(BUILD) $(GPU_SOAK_OPTIONS)

# GPU_BENCH_OPTIONS="--only NAME,NAME --alternations N --quick --time-limit SECONDS --json FILE"
gpu-bench: all
	@python3 bench/gpu/run.py $(BUILD) $(GPU_BENCH_OPTIONS)
	@test ! -e /dev/nvidia0 || MOESCOPE_BUILD=$(abspath $(BUILD)) python3 bench/gpu/routing.py

bench: all
	@bench/run.sh $(BUILD) $(BENCH_LARGEST)

# Figures of serving beside those of vLLM bench, GuideLLM and AIPerf, which it installs (gigabytes).
# LAB_CONFORMANCE_OPTIONS="--only vllm --requests N --endpoint chat --table FILE"
lab-conformance: all
	@python3 tests/lab/conformance_serving.py $(BUILD) $(LAB_CONFORMANCE_OPTIONS)

# Real servers under load, llama.cpp's among them, which it compiles.
lab-servers: all
	@MOESCOPE=$(abspath $(BUILD))/moescope MOESCOPE_BUILD=$(abspath $(BUILD)) MOESCOPE_LAB_ALL=1 \
		python3 tests/lab/test_servers.py

lint:
	@tools/deps.sh build test
	@python3 tools/run_tests.py --build $(BUILD) --only lint,tidy

fuzz:
	@tools/deps.sh build test
	@tests/fuzz/build.sh $(BUILD)-fuzz
	@MOESCOPE_FUZZ_BUILD=$(BUILD)-fuzz tests/fuzz/run.sh $(FUZZ_SECONDS)

install: all
	meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-*
