# The commands of a checkout. `make help` lists them.
#
# Every target that needs memrig makes .venv itself: first time a minute, afterwards nothing.
# The locks in requirements/ hold a hash for each file that pip may take.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The Python that makes .venv: the first of these that is new enough, or PYTHON=... from you.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11 python3.14,\
	$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))) python3)

VENV := .venv
MEMRIG := $(VENV)/bin/memrig
RUNTIME := $(VENV)/.memrig-runtime
DEV := $(VENV)/.memrig-dev

# What make's own variables become on the command line. The shell does the quoting, so a name with
# a blank in it, or two names in one variable, arrive as they were typed.
export BASELINE DATASET JOBS OUT SANDBOX SAMPLES YES
BENCH_FLAGS = $${BASELINE:+--baseline "$$BASELINE"} $${DATASET:+--dataset "$$DATASET"} \
	$${JOBS:+--jobs "$$JOBS"} $${OUT:+--output-dir "$$OUT"} $${SANDBOX:+--sandbox "$$SANDBOX"} \
	$${SAMPLES:+--samples "$$SAMPLES"}

.PHONY: help bench engine test test-systems lint format perf lock clean distclean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  make bench BASELINE=BM25 DATASET=path/to/data JOBS=2 OUT=runs/mine SANDBOX=venv'
	@echo '  make bench BASELINE="BM25 MemEngine-LTMemory" ARGS="--top-k 10"'
	@echo '  Variables: PYTHON (the interpreter for .venv), ARGS (more flags for memrig or pytest)'

bench: $(RUNTIME) ## Run systems over a data set, to the table (BASELINE= DATASET= JOBS= OUT=)
	@$(MEMRIG) bench $(BENCH_FLAGS) $(ARGS)

engine: $(RUNTIME) ## Bring a bare Debian machine to a running container engine (root; YES=1)
	@$(MEMRIG) engine $${YES:+--yes} $(ARGS)

test: $(DEV) ## The tests; what could not be run is named at the end
	@$(VENV)/bin/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-systems: $(DEV) ## The tests that build images of real third-party systems
	@$(VENV)/bin/python -m pytest --systems $(ARGS)

lint: $(DEV) ## ruff and mypy
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

format: $(DEV) ## Let ruff format and sort
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

perf: $(DEV) ## Speed and size, as ratios measured in one run
	@$(VENV)/bin/python -m perf $(ARGS)

lock: $(DEV) ## Write the locks in requirements/ anew from pyproject.toml
	cd requirements && ../$(VENV)/bin/uv pip compile ../pyproject.toml build.in --universal \
		--python-version 3.11 --generate-hashes --no-header --no-annotate -q -o runtime.txt
	cd requirements && ../$(VENV)/bin/uv pip compile ../pyproject.toml build.in --extra dev --universal \
		--python-version 3.11 --generate-hashes --no-header --no-annotate -q -c runtime.txt -o dev.txt

clean: $(RUNTIME) ## Remove the containers, volumes and old images that no live run owns
	@$(MEMRIG) clean --images --yes $(ARGS)

distclean: ## Remove .venv and the caches of the tools (never runs/)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis memrig.egg-info build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "memrig needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." >&2; \
		echo "Name another: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) could not make a virtual environment; on Debian: apt-get install python3-venv" >&2; \
		exit 2; }

$(RUNTIME): $(VENV)/bin/python requirements/runtime.txt pyproject.toml
	@echo "installing memrig into $(VENV) (locked, with hashes) ..." >&2
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	@echo "installing the tools for tests into $(VENV) ..." >&2
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@
