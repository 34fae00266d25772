# Noria's commands. `make` alone lists them. The first one that needs it creates .venv and installs
# requirements.lock there; a changed lock or pyproject.toml makes the next command install again.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
OTHERS := .venv-ecosystem
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MIX := tiny
BASE := build/$(MIX)
MODEL := src/noria/data/$(MIX)
AWAY :=
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
OFFLINE := HF_HUB_OFFLINE=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all test-ray test-ecosystem lint format bench base lock

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv and install the locked versions

demo: $(READY) ## two rounds of the closed loop on this machine
	@$(BIN)/noria doctor > $(VENV)/doctor.txt || { cat $(VENV)/doctor.txt; \
	  echo "If the sandbox line fails, run:"; \
	  echo "  sudo sysctl -e -w kernel.apparmor_restrict_unprivileged_userns=0 \
	kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"; exit 1; }
	$(OFFLINE) $(BIN)/noria run recipes/quickstart.toml
	@echo "To call noria yourself:  . $(BIN)/activate"

test: lint ## lint, types, import rules and the tests but the slow ones
	$(ONE_THREAD) $(OFFLINE) $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow"

test-all: lint ## the same with the slow tests
	$(ONE_THREAD) $(OFFLINE) $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-ray: $(READY) ## install Ray (80 MB) and run the tests of executors with it
	$(BIN)/python -m pip install -q -e '.[ray]'
	$(ONE_THREAD) $(OFFLINE) $(BIN)/pytest -q tests/executors

test-ecosystem: $(OTHERS)/.ready ## create .venv-ecosystem (2 GB) and run the tests with packages of others
	$(ONE_THREAD) $(OFFLINE) $(OTHERS)/bin/pytest -q -n $(WORKERS) --dist loadfile tests/ecosystem

lint: $(READY) ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## rewrite the sources as ruff wants them
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(READY) ## measure the sandbox and the engine, and the stages of the newest run
	$(ONE_THREAD) $(BIN)/python bench/sandbox.py
	$(ONE_THREAD) $(OFFLINE) $(BIN)/python bench/engine.py
	@if ls runs/*/run.json > /dev/null 2>&1; then $(BIN)/python bench/stages.py; fi

base: $(READY) ## train a built-in model anew (an hour on two cores); MIX=tiny-worlds, or MIX=code and then code-agent with AWAY=FOLDER, for another
	$(ONE_THREAD) PYTHONPATH=src:scripts $(BIN)/python scripts/tiny_corpus.py --mix $(MIX) --out $(BASE) --away $(AWAY)
	PYTHONPATH=src:scripts $(BIN)/python scripts/build_tiny.py tokenizer --mix $(MIX) --corpus $(BASE) --out $(MODEL)
	PYTHONPATH=src:scripts $(BIN)/python scripts/build_tiny.py train --mix $(MIX) --corpus $(BASE) --out $(MODEL)

lock: ## resolve the ranges of pyproject.toml anew and write requirements.lock
	rm -rf build/lock && $(PYTHON) -m venv build/lock && build/lock/bin/pip install -q '.[dev]'
	{ head -n 1 requirements.lock; build/lock/bin/pip freeze --exclude noria | sed 's/+.*//'; } > build/lock/new
	mv build/lock/new requirements.lock && rm -rf build/lock

# Packages whose own pins exclude each other are held together by exact versions, without resolving them.
$(OTHERS)/.ready: requirements-ecosystem.lock pyproject.toml
	test -x $(OTHERS)/bin/python || $(PYTHON) -m venv $(OTHERS)
	$(OTHERS)/bin/python -m pip install -q --no-deps --no-compile -r requirements-ecosystem.lock
	$(OTHERS)/bin/python -m pip install -q --no-deps -e .
	@touch $@

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed. Name one:  make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "The venv module is missing. Run:  sudo apt-get install python3-venv"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what requirements.lock names into $(VENV): about 1.5 GB, some minutes."
	$(BIN)/python -m pip install -q -r requirements.lock
	$(BIN)/python -m pip install -q --no-deps -e .
	@touch $@
