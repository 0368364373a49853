# Two commands: `make demo` sets everything up and runs a plan; `make test` sets everything up and runs all tests.
# YES=1 answers the question before anything is installed.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PYTHON3 = $(shell command -v $(BIN)/python || command -v python3)
# Container tests wait more than they compute.
TEST_WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
TEST_ARGS ?=

# The tests by what they are about; a test file that no other suite names is the wall's.
SUITES := mindagent mindcode mindwatch mind wall
SUITE_mindagent := tests/agents tests/context tests/providers tests/tools tests/tasks
SUITE_mindcode := $(wildcard tests/cli/test_agent*.py) $(addprefix tests/cli/test_,approve.py shell.py task.py)
SUITE_mindwatch := $(addprefix tests/cli/test_,live.py status_line.py trace.py watch.py) tests/trace
SUITE_mind := tests/mind
FOLDERS := $(filter-out tests/cli tests/data tests/policy_cases,$(patsubst %/,%,$(wildcard tests/*/)))
SUITE_wall = $(filter-out $(foreach suite,$(filter-out wall,$(SUITES)),$(SUITE_$(suite))), \
    $(FOLDERS) $(wildcard tests/cli/test_*.py tests/test_*.py))

.PHONY: help
help:
	@echo "make demo         set up everything, then run examples/first_plan.json"
	@echo "make test         set up everything, then run the checks and all tests"
	@echo "make test-NAME    one suite: $(SUITES)"
	@echo "make check        format, lint, types, import floors"
	@echo "make soak         the long form of the attacks: kills, deadlines, races"
	@echo "make bench        measure, and compare with the gates"
	@echo "make setup        the virtual environment only"
	@echo "make engine       see to it that a container engine answers"
	@echo "make engine-stop  end the engine, if make engine has started it"
	@echo "make image        the base image only"
	@echo "make clean        remove what was made here (the engine's images stay)"

.PHONY: ask
ask:
	@scripts/setup.sh ask

.PHONY: setup
setup:
	@scripts/setup.sh venv

.PHONY: engine
engine:
	@$(PYTHON3) scripts/engine.py start

.PHONY: engine-stop
engine-stop:
	@$(PYTHON3) scripts/engine.py stop

.PHONY: image
image: setup engine
	@$(BIN)/python scripts/base_image.py

# What is asked once is not asked again by the steps that follow.
.PHONY: demo
demo: ask
	@$(MAKE) YES=1 image
	@$(BIN)/mindx run examples/first_plan.json
	@command -v mindx >/dev/null || echo "to type mindx by its name: source $(BIN)/activate"

.PHONY: check
check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

.PHONY: test
test: ask
	@$(MAKE) YES=1 image
	@YES=$(YES) scripts/test_programs.sh
	@$(MAKE) check
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(TEST_ARGS)

.PHONY: $(SUITES:%=test-%)
$(SUITES:%=test-%): test-%: ask
	@$(MAKE) YES=1 image
	@YES=$(YES) scripts/test_programs.sh
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(TEST_ARGS) $(SUITE_$*)

.PHONY: suites
suites:
	@$(foreach suite,$(SUITES),echo "$(suite): $(SUITE_$(suite))";)

.PHONY: soak
soak: image
	$(BIN)/python -m scripts.soak $(SOAK_ARGS)

.PHONY: bench
bench: image
	$(BIN)/python -m scripts.bench

.PHONY: clean
clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
