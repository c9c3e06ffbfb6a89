# `make demo` and `make test` need Python 3.11 and make, nothing else: they build their own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
INSTALLED := $(VENV)/.installed

# The tests start hundreds of commands, which load faster from bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo install lint types docs unit gpu test test-slow test-faults format clean

help:
	@echo "make demo       set up .venv, then train, translate, score and report on the built-in corpus"
	@echo "make test       set up .venv, then run lint, types, documentation and the fast tests"
	@echo "make gpu        run the tests on a simulated GPU"
	@echo "make docs       build the documentation into site/; check its links and spelling"
	@echo "make test-slow  run the long tests"
	@echo "make test-faults  run the campaign of random kills and damaged files"
	@echo "make install    set up .venv only"
	@echo "make format     format the code and apply automatic fixes"
	@echo "make clean      remove .venv, site, build and caches"

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(INSTALLED): $(CORE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--editable '.[dev,docs,track,rouge,ctranslate2,onnx,hub,serve,documents,cluster]'
	@touch $@

install: $(INSTALLED)

demo: $(CORE)
	$(BIN)/lamina demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

docs: $(INSTALLED)
	$(BIN)/python tools/build_site.py
	$(BIN)/python tools/spelling.py

unit: $(INSTALLED)
	$(BIN)/pytest -m "not slow" --numprocesses auto --dist loadfile

# In a process of its own: the simulated GPU must be loaded before torch (tests/gpu/ghost.py).
gpu: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/pytest -p gpu.ghost -m "not slow" --numprocesses auto --dist loadfile tests/gpu

test: lint types docs unit gpu

test-slow: $(INSTALLED)
	$(BIN)/pytest -m slow
	PYTHONPATH=tests $(BIN)/pytest -p gpu.ghost -m slow tests/gpu

# 1,000 random kills and 10,000 damaged files: about half an hour on one core.
test-faults: $(INSTALLED)
	$(BIN)/python tests/faults/campaign.py --kills 1000 --damaged 10000 --summary build/faults.json

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) site build .mypy_cache .ruff_cache .pytest_cache
