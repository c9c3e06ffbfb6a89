# `make test` needs Python 3.11 and make, nothing else: it builds its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install lint types unit test test-slow format clean

help:
	@echo "make test       set up .venv, then lint, types and the fast tests"
	@echo "make test-slow  the long tests"
	@echo "make install    set up .venv only"
	@echo "make format     let ruff format and fix the code"
	@echo "make clean      remove .venv and caches"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,track,rouge,ctranslate2]'
	@touch $@

install: $(INSTALLED)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	$(BIN)/pytest -m "not slow" --numprocesses auto

test: lint types unit

test-slow: $(INSTALLED)
	$(BIN)/pytest -m slow

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
