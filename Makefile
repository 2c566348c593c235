# `make demo` and `make test` set up .venv by themselves; the stamp file makes later runs quick.

PYTHON ?= python3
TORCH ?= torch==2.13.0
STAMP := .venv/.installed
LINT_STAMP := .venv/.lint-installed
BIN := .venv/bin

# torch says at import that NumPy is missing; nothing here needs it.
export PYTHONWARNINGS := ignore:Failed to initialize NumPy

.PHONY: demo tutorials test processes coverage torture exact bench size lint clean matrix mutants spec-cuda

demo: $(STAMP)
	$(BIN)/python tutorials/char_lm.py

# Every page of tutorials/ against what it says it prints, with the seconds that each takes.
tutorials: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tutorials/run.py

# Two workers with one thread each: more threads only wait for each other on models this small.
# The floor is a little below the number of clauses: fewer than that did not run by mistake.
TESTS := -m pytest -n 2 --floor 530 spec_tests
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python $(TESTS)

# Launches that take seconds each: scripts that become several processes and end together, shards.
processes: $(STAMP)
	MORE_PROCESSES=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q \
		spec_tests/test_processes.py spec_tests/test_fsdp.py spec_tests/test_exact.py

# The same tests, measured: how much of each module they run through, branches counted.
COVERED := 96
coverage: $(STAMP)
	rm -f .coverage .coverage.*
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run $(TESTS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --show-missing --skip-covered --fail-under=$(COVERED)

# LIGHTNING=PYTHON compares with the Lightning 2.x that this interpreter can import, too.
bench: $(STAMP)
	$(BIN)/python spec_tests/overhead.py --json build/overhead.json $(LIGHTNING:%=--lightning %)

# Kill a run at 200 random moments, fill the disk at 20, go on, and compare; then one of two
# processes, or both, at 50. Takes twenty minutes.
torture: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python spec_tests/torture.py --kills 200 --fills 20
	OMP_NUM_THREADS=1 $(BIN)/python spec_tests/torture.py --kills 50 --fills 0 --ranks 2

# Tables of exact resume: where a run was saved, by loader, precision and number of processes. Takes
# an hour; EVERY=7 takes each seventh diagonal of each table.
exact: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python spec_tests/exact_matrix.py --every $(or $(EVERY),1)

# What is wrong without being run: unused and unbound names, and types.
lint: $(LINT_STAMP)
	$(BIN)/ruff check minilightning spec_tests tutorials
	$(BIN)/mypy --strict minilightning

size:
	$(PYTHON) spec_tests/size.py

# What needs a GPU, in under five minutes; without one it says so in a line.
spec-cuda: $(STAMP)
	$(BIN)/python -m spec_tests.cuda

# The suite on minilightning and on four releases of Lightning, in environments of their own.
matrix:
	$(PYTHON) spec_tests/matrix.py

# Every mutant: the hand-written ones, each with its clause, and the generated ones. Takes hours.
mutants: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m spec_tests.selftest.mutants --generated

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install "$(TORCH)"
	$(BIN)/pip install -e ".[dev,progress]"
	touch $@

$(LINT_STAMP): $(STAMP)
	$(BIN)/pip install -e ".[lint]"
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info
	find minilightning spec_tests tutorials -name __pycache__ -type d -prune -exec rm -rf {} +
