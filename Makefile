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
.PHONY: env oracle bench nightly test test-parity test-engine test-graphs test-cores test-inductor lint clean

PYTHON ?= python3
EXTRAS ?= onnx,gpu,serve,quant,cores,study,dev
BENCH ?= --core deeplabv3
NIGHTLY ?=
DEVICE ?= --device cuda
COLD ?= $(or $(NIGHTLY),--core deeplabv3 --core flux-clip --variant eager-bf16 --variant inductor-default-bf16)
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

# Everything that a night is for: what is wrong, not whole, slower or gone fails it. Each cold start takes three processes
# that compile anew, so there are a few (COLD), in a run of their own, unless NIGHTLY chooses; none with COLD=, or where
# NIGHTLY leaves none. nightly/ has what a person and what a machine reads, and the worse exit status of the two, which make
# hides; `--benchmark-autosave` keeps the runs. When the time is up (LIMIT, COLD_LIMIT; status 124) pytest is interrupted,
# and keeps what it has measured.
CHECKS := parity or graphbreaks or recompiles or placement or latency
LIMIT ?= 45m
COLD_LIMIT ?= 10m
IN_TIME = timeout --foreground --signal=INT --kill-after=60s
GATED := perf/suites --require-baseline --strict-catalogue --benchmark-compare --benchmark-autosave $(DEVICE)
# pytest's status is written down before Python ends, which takes seconds where it lets go of a GPU: when the time is up only
# then, it holds, unless it is 2, of a pytest that was interrupted.
PYTEST := $(BIN)/python -c 'import pathlib, sys, pytest; status = int(pytest.main(sys.argv[2:])); pathlib.Path(sys.argv[1]).write_text(str(status)); sys.exit(status)'
# The gate fails a run that compares nothing, and so it should where COLD names cases that there are not. Whether NIGHTLY
# leaves a cold start is asked beforehand: 5 is pytest's own word for nothing collected.
COLD_IS_NIGHTLYS = $(and $(NIGHTLY),$(filter file,$(origin COLD)))
ANY_COLD = $(IN_TIME) $(COLD_LIMIT) $(BIN)/python -m pytest perf/suites --collect-only --quiet $(DEVICE) -m coldstart $(COLD) >/dev/null
# The lock is open in all that writes into nightly/, and the kernel gives it back when the last of that has ended, however it
# has; the file stays.
nightly: env
	@for tool in flock timeout; do command -v $$tool >/dev/null || { echo "make: '$$tool' was not found; make nightly needs it, of util-linux and coreutils: apt-get install util-linux coreutils" >&2; exit 1; }; done
	@exec 9>>nightly.lock; flock --nonblock 9 || { echo "make: $(CURDIR)/nightly.lock is held: another make nightly is at work here, or what a killed one left running (fuser -v nightly.lock): wait for it, or run in a clone of your own" >&2; exit 1; }; \
	rm -rf nightly && mkdir nightly || exit 1; \
	run() { ended=nightly/$$1.ended; limit=$$2; shift 2; set -- $(GATED) "$$@"; echo "pytest $$*"; \
	  $(IN_TIME) $$limit $(PYTEST) $$ended "$$@"; status=$$?; \
	  case $$status-$$(cat $$ended 2>/dev/null) in 124-[!2]|137-[!2]) \
	    status=$$(cat $$ended); echo "The time was up when pytest had ended, with status $$status, and Python had not.";; \
	  esac; return $$status; }; \
	run run $(LIMIT) -m "$(CHECKS)" --precompile $(PRECOMPILE) $(NIGHTLY) --benchmark-json=nightly/run.json --report=nightly/report.md \
	  --graph-report=nightly/graphs.json --placement-report=nightly/placement.json --traces=nightly/traces; checks=$$?; cold=0; \
	case $$checks$(if $(COLD),,-) in 0|1|6) \
	  $(if $(COLD_IS_NIGHTLYS),$(ANY_COLD); [ $$? = 5 ] && echo "NIGHTLY leaves no cold start." ||) \
	  { run cold $(COLD_LIMIT) -m coldstart $(COLD) --benchmark-json=nightly/cold.json --report=nightly/cold.md; cold=$$?; };; \
	esac; \
	case $$checks-$$cold in 0-*|6-[!0]*) status=$$cold;; *) status=$$checks;; esac; \
	echo $$status > nightly/status; exit $$status

# In CI the tests that need the oracle must run, so it is there; elsewhere they skip and say so. The parts run two at a
# time, each on one thread: nothing here is timed. Every core is checked in the variants that differ most; what Inductor
# compiles takes a C++ compiler's minutes on two cores, so a few small cores stand for all. `pytest tests` runs the whole.
PARTS := test-parity test-engine test-graphs test-cores test-inductor

test: env $(if $(CI),oracle)
	@$(if $(TESTS),$(BIN)/python -m pytest -q $(TESTS),$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(PARTS))

test-%: export OMP_NUM_THREADS = 1
test-engine:
	$(BIN)/python -m pytest -q tests/engine
test-cores:
	$(BIN)/python -m pytest -q tests/cores
test-parity:
	$(BIN)/python -m pytest -q tests/parity tests/placement $(addprefix --variant ,$(TEST_VARIANTS))
test-graphs:
	$(BIN)/python -m pytest -q tests/graphbreaks
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
