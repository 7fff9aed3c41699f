# SPDX-License-Identifier: BSD-2-Clause
# The two commands: `make demo` and `make check`. Everything is built into build/ by CMake and runs from there.
BUILD ?= build
JOBS ?= $(shell nproc)
TYPE ?= RelWithDebInfo

all: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja: CMakeLists.txt
	@scripts/install-deps build
	@test -d $(BUILD)/profile || TYPE=$(TYPE) JOBS=$(JOBS) scripts/train $(BUILD) $(CMAKE_ARGS) || echo "It is built without."
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=$(TYPE) -DVERBATIM_PROFILE=$(abspath $(BUILD))/profile $(CMAKE_ARGS)

# How messages go through the library, which it is optimized by, is counted before the first build; this does it anew.
train:
	@test ! -f $(BUILD)/build.ninja || cmake --build $(BUILD) --target clean
	@rm -rf $(BUILD)/profile $(BUILD)/build.ninja
	@$(MAKE) --no-print-directory all

# What the programs of the demo, the tests and the benchmarks need beyond the compiler.
deps-%:
	@scripts/install-deps $*

demo: deps-demo all
	@scripts/demo

check: deps-check all
	@scripts/check $(BUILD) $(CTEST_ARGS)

bench: deps-bench all
	@$(BUILD)/bin/verbatim bench --output $(BUILD)/bench $(BENCH_ARGS)

# clang, clang-tidy and cppcheck over all sources, then the sanitizers: some minutes each; `make check` has a part of them.
lint: deps-lint
	@scripts/lint

sanitize: deps-check deps-lint
	@scripts/sanitize address
	@scripts/sanitize thread
	@scripts/sanitize valgrind

install: all
	@cmake --install $(BUILD)

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-valgrind $(BUILD)-clang

.PHONY: all train demo check bench lint sanitize install clean
