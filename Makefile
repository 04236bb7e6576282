# Two commands are all that a newcomer needs: `make demo` and `make test`.
# PYTHON chooses the interpreter (3.11 or newer); everything else lives in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_DIR ?= elastic_runs/demo

.PHONY: help demo test test-all test-half-1 test-half-2 test-3.12 test-3.13 lint format types pages machine-pages docs package benchmarks clean

help:
	@echo "make demo        four workers train, one crashes, the run resumes"
	@echo "make test        everything the tests need, and the tests"
	@echo "make lint types  what else continuous integration looks at"
	@echo "make docs        the documentation as a site, in docs/_build"
	@echo "make benchmarks  a table of times against torchrun's"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# A stamp for each set of packages; it is remade when the project file changes.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[examples]'
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet torch==2.13.0
	touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	rm -rf $(DEMO_DIR) && mkdir -p $(DEMO_DIR)
	$(BIN)/elastic-fsm run -n 4 spec.max_restarts=1 examples/train_numpy.py \
	  --checkpoint $(DEMO_DIR)/checkpoint.npz --crash-rank 2 --crash-step 150

# The real xstate package, which the exported machines are compared with.
XSTATE := tests/graph/xstate/node_modules
$(XSTATE): tests/graph/xstate/package-lock.json
	@if command -v npm >/dev/null; then npm ci --silent --prefix tests/graph/xstate && touch $@; \
	else echo "no npm here: exports are not compared with xstate"; fi

test: $(VENV)/.test $(XSTATE)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# Side by side, two at a time: two halves, and the other Pythons where they are found.
test-all:
	$(MAKE) --jobs=2 --output-sync=target test-half-1 test-half-2 test-3.12 test-3.13

test-half-1 test-half-2: test-half-%: $(VENV)/.test $(XSTATE)
	$(MAKE) test PYTEST_ARGS="--share $*/2 $(PYTEST_ARGS)"

# There is one torch build only, so its tests are left out. Of the others each Python takes a
# quarter: what depends on the Python is in many tests. `make test-3.12 SHARE=1/1` runs them all.
test-3.12: SHARE ?= 1/4
test-3.13: SHARE ?= 2/4
test-3.12 test-3.13: test-%: $(XSTATE)
	@python=; for candidate in python$* $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$*.*/bin/python; do \
	  if $$candidate -c '' 2>/dev/null; then python=$$candidate; fi; \
	done; \
	if [ -z "$$python" ]; then echo "no Python $* here, its tests are left out"; exit 0; fi; \
	$$python -m venv $(VENV)-$* && \
	$(VENV)-$*/bin/python -m pip install --quiet --editable '.[test]' && \
	$(VENV)-$*/bin/python -m pytest -q -m 'not torch' --share $(SHARE) $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/.test
	$(BIN)/mypy

# The machines must be sound, and the generated page and its pictures those of the machines.
pages: $(VENV)/.test
	$(BIN)/elastic-fsm check machine=elastic
	$(BIN)/elastic-fsm check machine=fail_fast
	$(BIN)/elastic-fsm check machine=coarse
	$(BIN)/elastic-fsm graph --check docs/machine.md --check docs/pictures/elastic.svg --check docs/pictures/fail_fast.svg --check docs/pictures/coarse.svg
	$(BIN)/python docs/pictures/draw.py --check

# Renew them.
machine-pages: $(VENV)/.test
	for machine in elastic fail_fast coarse; do $(BIN)/elastic-fsm graph machine=$$machine -o docs/pictures/$$machine.svg || exit 1; done
	$(BIN)/elastic-fsm graph -o docs/machine.md
	$(BIN)/python docs/pictures/draw.py

# The pages as a site; a link or a name that leads nowhere is an error.
docs: $(VENV)/.test
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build

# Build both archives, and run the installed wheel from an empty folder: it must bring its conf/.
package: $(VENV)/.test
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	set -e; empty=$$(mktemp -d); trap 'rm -rf "$$empty"' EXIT; \
	$(BIN)/python -m venv "$$empty/venv"; \
	"$$empty/venv/bin/pip" install --quiet dist/*.whl; \
	mkdir "$$empty/here"; cd "$$empty/here"; \
	"$$empty/venv/bin/elastic-fsm" run -n 2 machine=fail_fast -- true

# Against the package as a user installs it: the tests' own packages would slow its start.
benchmarks: $(VENV)/.test
	rm -rf $(VENV)-bench && $(PYTHON) -m venv $(VENV)-bench && $(VENV)-bench/bin/pip install --quiet .
	$(BIN)/python benchmarks/run_all.py --ours $(abspath $(VENV)-bench/bin/elastic-fsm)
	$(BIN)/python benchmarks/journal.py

clean:
	rm -rf $(VENV) $(VENV)-3.* $(VENV)-bench dist docs/_build elastic_runs .pytest_cache .mypy_cache .ruff_cache tests/graph/xstate/node_modules
