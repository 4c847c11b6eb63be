# Everything a newcomer needs: `make demo`, `make test`. Each sets up what is missing first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test slow check bench setup clean

help:
	@echo "make demo   train a small early-exit model on real text, and see what it reached"
	@echo "make test   run the tests"
	@echo "make setup  only make .venv, which the others do by themselves"
	@echo "make slow   run the tests that take long"
	@echo "make check  lint, types, and the order of the packages"
	@echo "make bench  compare the training step with a plain loop"
	@echo "make clean  remove the virtual environment"

demo: $(READY)
	$(BIN)/ease train quickstart

test: $(READY)
	$(BIN)/pytest

slow: $(READY)
	$(BIN)/pytest -m slow

check: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest tests/test_layers.py

bench: $(READY)
	$(BIN)/python benchmarks/training_step.py

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "ease needs Python 3.11 or later as '$(PYTHON)': apt-get install python3," \
	       "or name another with make PYTHON=python3.12 ..."; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "this Python cannot make virtual environments: apt-get install python3-venv"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[data,dev]'
	@touch $@

clean:
	rm -rf $(VENV)
