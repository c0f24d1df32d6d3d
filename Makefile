# EdgeLoop: every target sets itself up. Needs Python 3.11 (or newer, below 3.14) and make, nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo up test check fmt docs clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No python3 found. Install Python 3.11 and try again." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] < (3, 14)))' \
	  || { echo "EdgeLoop needs Python 3.11 to 3.13; set PYTHON=/path/to/python3.11." >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "setuptools>=77" wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $(STAMP)

install: $(STAMP) ## Make the virtual environment with everything in it

demo: $(STAMP) ## Run the whole loop on real video (a quarter of an hour); report in build/demo/
	$(BIN)/edgeloop demo $(DEMO_ARGS)

up: $(STAMP) ## Start the embedded platform; Ctrl-C stops it
	$(BIN)/edgeloop up $(UP_ARGS)

# The platform and the loop want the machine for themselves; services share the cores, each worker with servers of its own.
SERVICES := tests/builds tests/kit tests/releases tests/telemetry
ALONE := tests/embedded tests/e2e
test: $(STAMP) ## Run all tests on the real parts, the end-to-end loop last
	$(BIN)/python -m pytest -n 2 --dist loadfile $(addprefix --ignore ,$(SERVICES) $(ALONE)) $(TEST_ARGS)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(SERVICES) $(TEST_ARGS)
	@for suite in $(ALONE); do echo "$$suite" && $(BIN)/python -m pytest $$suite $(TEST_ARGS) || exit 1; done

check: $(STAMP) ## Lint, types, direction of imports, migrations, OpenAPI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m services.openapi --check
	$(BIN)/python -m contracts.wire.schema --check
	$(BIN)/python -m compiler.operators --check
	$(BIN)/python -m services.dashboard.catalogues --check
	$(BIN)/python -m migrations.check

fmt: $(STAMP) ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## Regenerate the reference pages that come from code
	$(BIN)/python -m services.openapi --write
	$(BIN)/python -m contracts.wire.schema --write
	$(BIN)/python -m compiler.operators --write

clean: ## Remove build outputs (keeps the virtual environment)
	rm -rf build
