# Two commands do everything, each alone on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# measured data, where a checkout has it beside itself; tests that need it say so when they are skipped
SHARED := $(wildcard ../shared/data)
export DEXPRIOR_DATA ?= $(abspath $(SHARED))

.PHONY: demo smoke test slow lint format clean

demo: $(STAMP)
	$(BIN)/dexprior demo

smoke: $(STAMP)
	$(BIN)/dexprior demo preset=smoke

test: $(STAMP) lint
	OMP_NUM_THREADS=1 $(BIN)/pytest

slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# pip keeps the versions of constraints.txt; the stamp is older than both files whenever one of them changed
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) runs dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
