# Thin: each target names a program and its arguments. `make` alone lists them.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# Stamps: a second `make` does nothing until a lock or pyproject.toml changes.
RUN_READY := $(VENV)/.ready-to-run
TEST_READY := $(VENV)/.ready-to-test
# More arguments, mostly for pytest: make test ARGS="tests/unit -k keyring"
ARGS :=
export PYTHON

.PHONY: help setup run test lint conformance bench requirements lock clean
.DEFAULT_GOAL := help

help:
	@echo "make setup         $(VENV) with the zkpcp command"
	@echo "make run           set up, then serve on this machine"
	@echo "make test          every test (ARGS=... goes to pytest)"
	@echo "make lint          format, lint, types, layers"
	@echo "make conformance   checkers that others wrote, against a live server (needs npm)"
	@echo "make requirements  run the tests that prove a requirement, write build/requirements.json"
	@echo "make bench         measure; figures and their machine stand in bench/README.md"
	@echo "make lock          pin the dependencies (needs uv; ARGS=--upgrade takes newer ones)"

setup: $(RUN_READY)

run: $(RUN_READY)
	$(BIN)/zkpcp serve

test: $(TEST_READY)
	@$(BIN)/python -m tests.support.system_packages
	$(BIN)/pytest $(ARGS)

lint: $(TEST_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

requirements: $(TEST_READY)
	@$(BIN)/python -m tests.support.system_packages
	$(BIN)/pytest -m requirement --requirements-json build/requirements.json $(ARGS)

conformance: $(TEST_READY)
	$(BIN)/python -m tests.external

bench: $(TEST_READY)
	$(BIN)/python -m bench

# The lock of the tests is the lock of the server and more, never other versions.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes --no-header \
	  --quiet $(ARGS) --output-file requirements.lock
	uv pip compile pyproject.toml --extra build --extra dev --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-header --quiet $(ARGS) --output-file tests/requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/pyvenv.cfg:
	@for python in "$$PYTHON" python3 python3.14 python3.13 python3.12 python3.11; do \
	  if [ -n "$$python" ] && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	    echo "$$python cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	    exit 1; \
	  fi; \
	done; \
	echo "zkpcp needs Python 3.11 or newer, and there is none on PATH (or name one: make setup PYTHON=/path/to/python3)" >&2; \
	exit 1

$(RUN_READY): requirements.lock pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "Installing what the server needs"
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(TEST_READY): tests/requirements.lock $(RUN_READY)
	@echo "Installing what the tests need"
	@$(PIP) install --require-hashes --requirement tests/requirements.lock
	@touch $@
