# `make run` is the whole system on this machine, `make test` its tests. Everything else is for those who work on it.

# The system's own interpreter first: Debian's is built with profiles; on one that was not a simulation took a sixth longer.
PYTHON ?= $(shell for each in /usr/bin/python3 python3; do \
  $$each -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && exit; \
  done; echo python3)
BIN := .venv/bin
RUN := .venv/.run
DEV := .venv/.dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run setup test lint format bench bench-e2e lock

# The system ends with make, even where make is killed.
run: $(RUN)
	@exec setpriv --pdeathsig TERM $(BIN)/python manage.py up

setup: $(RUN)

test: $(DEV)
	$(BIN)/python -m pytest

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy portal scheduler nodes quotas tests benchmarks
	$(BIN)/lint-imports
	DJANGO_SETTINGS_MODULE=portal.settings.offline $(BIN)/python manage.py makemigrations --check --dry-run

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV)
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.quality
	$(BIN)/python -m benchmarks.etas

bench-e2e: $(DEV)
	$(BIN)/python -m benchmarks.e2e
	$(BIN)/python -m benchmarks.agents
	$(BIN)/python -m benchmarks.sockets
	$(BIN)/python -m benchmarks.jobs_page
	$(BIN)/python -m benchmarks.usage

# The locks: what a clean environment of this Python resolves the .in files to today.
lock:
	@PYTHON=$(PYTHON) .ci/lock

# --- the environment: made once, filled again when a lock changes ---

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "gangway: needs Python 3.11 or later as $(PYTHON); name another with PYTHON=..." >&2; exit 1; }
	@df -Pm . | awk 'NR == 2 && $$4 < 1536 { exit 1 }' || \
	  { echo "gangway: the disk of $(CURDIR) is full: .venv and the data need 1.5 GB" >&2; exit 1; }
	@.ci/packages --for-run $(PYTHON)
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "gangway: $(PYTHON) cannot make environments: install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv .venv

$(RUN): requirements.txt | $(BIN)/python
	@echo "Installing what Gangway runs on into .venv (once, about a minute)"
	@$(PIP) -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt $(RUN)
	@$(PIP) -r requirements-dev.txt
	@touch $@
