# make         the environment, in .venv (VENV; once; again only after pyproject.toml or constraints.txt changed)
# make bench   the gate over one core: parity, graphs, latency, and a table    BENCH='--core unet'
# make test    the tests                                                       TESTS='tests/engine -k verdict'
# make nightly the whole gate over the full presets, on a GPU; results in nightly/  NIGHTLY='--core "flux-*"'
# make lint    ruff, mypy, zizmor, actionlint
# make clean   removes caches and build outputs; .venv and .benchmarks (your measurements) stay
#
# PYTHON=python3.13 makes the environment with another interpreter; EXTRAS=onnx,dev with fewer packages.

.DEFAULT_GOAL := env
.DELETE_ON_ERROR:
.PHONY: env oracle bench nightly test lint clean

PYTHON ?= python3
EXTRAS ?= onnx,gpu,serve,quant,cores,study,dev
BENCH ?= --core deeplabv3
NIGHTLY ?=
DEVICE ?= --device cuda
COLD ?= $(if $(NIGHTLY),,--core deeplabv3 --core flux-clip --variant eager-bf16 --variant inductor-default-bf16)
PRECOMPILE ?= $(shell expr $$(env -u OMP_NUM_THREADS nproc) / 2)
VENV_FLAGS ?=
TEST_VARIANTS ?= eager-fp32 eager-bf16 aot_eager onnx-cpu-fp32
INDUCTOR_CORES ?= deeplabv3 flux-clip llasa-tokens-vectorised

VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ORACLE := $(VENV)/.installed-oracle
PIP = $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint $(CONSTRAINTS)

# One cache for all that a run compiles: most of a compiled case's time on a CPU is the C++ compiler's.
export TORCHINDUCTOR_CACHE_DIR ?= $(CURDIR)/.cache/inductor
export TRITON_CACHE_DIR ?= $(CURDIR)/.cache/triton
# OpenMP threads that spin while they wait take a busy machine's cores from each other: six convolutions on two busy cores
# took 29 ms with passive waiting and 200 to 500 ms without.
export OMP_WAIT_POLICY ?= passive

env: $(STAMP)

# The stamp is the last step: an install that was stopped halfway is taken up again by the next call.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' was not found; coregate needs Python 3.11 or later: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $$($(PYTHON) --version 2>&1) is too old; coregate needs Python 3.11 or later: make PYTHON=python3.11" >&2; exit 1; }
	@echo "Installing coregate and its dependencies into $(VENV): some minutes and 6 GB, once."
	@$(PYTHON) -m venv $(VENV_FLAGS) $(VENV) || { echo "make: no virtual environment could be made; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PIP) --editable '.[$(EXTRAS)]'
	@$(BIN)/python -m pip check
	@touch $@

# The text-to-speech oracle (AGPL-3.0, builds three packages from source). Its pyopenjtalk-dict overwrites the files of
# pyopenjtalk-plus, which alone loads beside numpy 2: so that one is laid down again, last.
oracle: $(ORACLE)

$(ORACLE): $(STAMP)
	$(PIP) --editable '.[tts-oracle]'
	$(PIP) --force-reinstall --no-deps pyopenjtalk-plus
	@$(BIN)/python -m pip check
	@touch $@

bench: env
	$(BIN)/python -m pytest $(BENCH)

# Everything that a night is for: what is wrong, not whole, slower or gone fails it; .ci/night has how. Each cold start takes
# three processes that compile anew, so there are a few (COLD), and none where NIGHTLY chooses cases and COLD does not. It is
# interrupted after LIMIT, and its cold starts after COLD_LIMIT.
LIMIT ?= 45m
COLD_LIMIT ?= 15m
nightly: export DEVICE := $(DEVICE)
nightly: export PRECOMPILE := $(PRECOMPILE)
nightly: export NIGHTLY := $(NIGHTLY)
nightly: export LIMIT := $(LIMIT)
nightly: export COLD := $(COLD)
nightly: export COLD_LIMIT := $(COLD_LIMIT)
nightly: env
	@$(SHELL) .ci/night $(BIN)/python

# In CI the tests that need the oracle must run, so it is there; elsewhere they skip and say so. The parts run two at a
# time, the longest first, each on one thread: nothing here is timed. Every core is checked in the variants that differ most;
# what Inductor compiles takes a C++ compiler's minutes on two cores, so a few small cores stand for all. test-engine is all
# of tests/engine but for the folders that are parts of their own (APART). `pytest tests` runs the whole.
PARTS := test-engine test-parity test-cores test-graphs test-processes test-recompiles test-gate test-inductor
APART := gate processes
.PHONY: $(PARTS)

test: env $(if $(CI),oracle)
ifdef TESTS
	@$(BIN)/python -m pytest -q $(TESTS)
else
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(PARTS)
endif

test-%: export OMP_NUM_THREADS = 1
test-engine:
	$(BIN)/python -m pytest -q tests/engine $(addprefix --ignore=tests/engine/,$(APART))
$(addprefix test-,$(APART)): test-%:
	$(BIN)/python -m pytest -q tests/engine/$*
test-cores:
	$(BIN)/python -m pytest -q tests/cores
test-parity:
	$(BIN)/python -m pytest -q tests/parity tests/placement $(addprefix --variant ,$(TEST_VARIANTS))
test-graphs:
	$(BIN)/python -m pytest -q tests/graphbreaks
test-recompiles:
	$(BIN)/python -m pytest -q tests/recompiles
test-inductor:
	$(BIN)/python -m pytest -q tests/parity --variant inductor-default $(addprefix --core ,$(INDUCTOR_CORES))

lint: env
	@status=0; \
	for tool in "ruff check ." "ruff format --check ." mypy "zizmor --offline --quiet .github/workflows"; do \
	  echo "$$tool"; $(BIN)/$$tool || status=1; \
	done; \
	if command -v actionlint >/dev/null; then echo actionlint; actionlint || status=1; \
	else echo "actionlint was not run: it is not on PATH; brew install actionlint, or go install github.com/rhysd/actionlint/cmd/actionlint@latest"; fi; \
	exit $$status

clean:
	rm -rf .cache nightly .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find perf fixtures tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
