# Every command of this repository. Setting up is part of each: nothing is installed twice.
#
# Only names relative to this folder, because its path may have spaces.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo site quick test system lint types floors tests format clean

BIN := .venv/bin
NAME = cartpole-$(shell date +%Y%m%d-%H%M%S)
export PYTHON
# Tests start a thousand Pythons; each would compile all of hpcpod again.
unexport PYTHONDONTWRITEBYTECODE

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile
	@echo "  PYTHON=...    the Python of a new .venv (3.10 or newer); default: python3"

demo: .venv/.demo ## Train CartPole by a tournament on this machine
	@$(BIN)/hpcpod launch configs/cartpole.yaml --set "name=$(NAME)"

quick: .venv/.test ## The quick tests: no torch, no Slurm, no MPI; seconds
	@$(BIN)/python -m pytest -q -p tests.support.quick --hypothesis-profile quick \
	    -n logical --maxprocesses 4 -rfE -m "not (slurm or mpi or gpu or slow or long)" \
	    --ignore tests/benchmarks $(PYTEST)

test: system lint types floors tests ## Everything: lint, types, floors, tests

system: # The real Slurm and MPI that some tests start
	@sh .ci/setup.sh system

lint: .venv/.test ## Style and formatting (ruff)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { \
	    echo "These are not formatted (make format):"; $(BIN)/ruff format --check .; exit 1; }

types: .venv/.test ## Types (mypy --strict)
	@MYPY_NUM_WORKERS=2 $(BIN)/mypy --no-error-summary

floors: .venv/.test ## Imports only go down (import-linter)
	@$(BIN)/lint-imports

tests: .venv/.test ## The tests alone (pytest); PYTEST="-n 0 -k name" passes options
	@$(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder $(PYTEST)

site: .venv/.test ## The pages as a site, with a search, in site/
	@$(BIN)/python -m tests.docs.build_site

format: .venv/.test ## Format the code
	@$(BIN)/ruff check --quiet --fix-only . ; $(BIN)/ruff format .

clean: ## Remove what make made; runs/ stays
	rm -rf site .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.demo: pyproject.toml hpcpod/_version.py constraints.txt .ci/setup.sh
	@sh .ci/setup.sh python
	@touch $@

.venv/.test: pyproject.toml hpcpod/_version.py constraints.txt .ci/setup.sh .ci/loggers.txt
	@sh .ci/setup.sh python test
	@touch $@ .venv/.demo
