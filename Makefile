# SPDX-License-Identifier: BSD-2-Clause
# The two commands: `make demo` and `make check`. Everything is built into build/ by CMake and runs from there.
BUILD ?= build
JOBS ?= $(shell nproc)
TYPE ?= RelWithDebInfo

all: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja: CMakeLists.txt
	@scripts/install-deps build
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=$(TYPE) $(CMAKE_ARGS)

# What the programs of the demo, the tests and the benchmarks need beyond the compiler.
deps-%:
	@scripts/install-deps $*

demo: deps-demo all
	@scripts/demo

check: deps-check all
	@scripts/check $(BUILD) $(CTEST_ARGS)

bench: deps-bench all
	@bench/run

install: all
	@cmake --install $(BUILD)

clean:
	@rm -rf $(BUILD)

.PHONY: all demo check bench install clean
