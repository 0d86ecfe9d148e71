# Everything goes through .venv, which `setup` makes from pyproject.toml and constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# A hundred processes of the tests would each compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: play test test-slow bench lint format setup browser clean

play: setup
	@$(BIN)/quantscope play

# A file of tests a process, in the order of their names: those of the page come first and wait for
# it much, so there are more processes than cores. Files stay whole, for their tests share a page.
TESTS_AT_ONCE ?= 3
test: setup browser lint
	$(BIN)/python -m pytest -n $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder --durations 10

test-slow: setup browser
	$(BIN)/python -m pytest -m slow --timeout 1200

bench: setup
	$(BIN)/python -m benchmarks

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"quantscope needs Python 3.11 or later, found {v[0]}.{v[1]} at {sys.executable}; try: make PYTHON=python3.12")'
	@echo "Setting up $(VENV); the first time takes a few minutes." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,dask,dev]'
	@touch $(READY)

# The playground is tested in a real Chromium, the one there is or one that can be installed, and
# with axe-core where npm is there.
browser: setup
	@$(BIN)/python tools/find_browser.py
	@$(BIN)/python tools/find_axe.py

clean:
	rm -rf $(VENV)
