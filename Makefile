# Two commands do everything, each alone on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# tests run side by side, a file in one process
JOBS   ?= 2
# what was installed: the package alone for the demo; with it, what only development needs
DEMO   := $(VENV)/.installed-demo
DEV    := $(VENV)/.installed

# measured data, where a checkout has it beside itself; tests that need it say so when they are skipped
SHARED := $(wildcard ../shared/data)
export DEXPRIOR_DATA ?= $(abspath $(SHARED))

.PHONY: demo smoke checkpoints test slow lint format clean

demo: $(DEMO)
	$(BIN)/dexprior demo

smoke: $(DEMO)
	$(BIN)/dexprior demo preset=smoke

# trained sets of the line's tasks in runs/checkpoints; what is killed goes on
checkpoints: $(DEMO)
	$(BIN)/python scripts/checkpoints.py

test: $(DEV) lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist loadfile

slow: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist loadfile -m slow

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# pip keeps the versions of constraints.txt; a stamp is older than both files whenever one of them changed
INSTALL = test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e

$(DEMO): pyproject.toml constraints.txt
	$(INSTALL) .
	touch $@

$(DEV): pyproject.toml constraints.txt
	$(INSTALL) ".[dev]"
	touch $@ $(DEMO)

clean:
	rm -rf $(VENV) runs dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
