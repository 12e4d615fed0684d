# What a fresh machine with Python, git and make needs. `make` alone lists the targets.
#
#   make demo     predict the two bundled examples on a T4 and on an A100, no GPU needed
#   make test     the test suite and the checkers, in .venv
#   make test PYTHON=/path/to/python3.12     with a Python of your choice (3.10 or newer)
#
# Each environment is installed once, and again only when pyproject.toml or this file changes (the stamp files).

# The first of these that really starts, is 3.10 or newer and can make environments. Asked only when needed: `=`, not `:=`.
find_python = $(shell for name in python3 python3.12 python3.11 python3.10 python3.13 python3.14; do \
	if $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then echo $$name; break; fi; done)
PYTHON ?= $(find_python)

GPUS ?= t4,a100-40gb
PYTEST_ARGS ?=
# Two workers of one thread each: more threads than cores wait for each other, and tests take minutes that take seconds.
PYTEST = -m pytest -n 2 $(PYTEST_ARGS)
test test-vision test-oldest: export OMP_NUM_THREADS = 1
# `make test PIP_ARGS=` shows what pip does.
PIP_ARGS ?= --quiet
# `make accuracy ALL=1` scores every row instead of the sample of 100.
ALL ?=

VISION_PACKAGES = "torch==2.14.1" "torchvision==0.29.1" timm peft
OLDEST_PACKAGES = "torch==2.6.0" "numpy<2.3"
# The newest of the libraries that Loop is held against; the page says which they were.
PARITY_PACKAGES = "accelerate==1.15.0" "lightning==2.6.6"
# `make cost SECONDS=3` for a look; a minute a run is what the page shows.
SECONDS ?= 60
# What must hold on the oldest PyTorch: not the scripts, whose libraries (transformers) may ask for a newer one, and not
# the pages, which show what the pinned PyTorch gives.
OLDEST_TESTS = tests --ignore=tests/test_scripts.py --ignore=tests/test_docs.py

.PHONY: help demo test test-vision test-oldest accuracy parity cost clean

help:
	@sed -n 's/^#   //p' Makefile
	@echo 'make test-vision   the suite with torch 2.14.1 and torchvision 0.29.1, in .venv-vision (several GB)'
	@echo 'make test-oldest   the core of the suite with torch 2.6.0, in .venv-oldest (several GB)'
	@echo 'make accuracy      scores predictions against published measurements, in .venv-vision; ALL=1 for every row'
	@echo 'make parity        the traps of training loops beside Accelerate and Fabric, in .venv-parity; writes docs/loop-parity.md'
	@echo 'make cost          time and memory of Loop against the plain loop (an hour on an idle machine), in .venv-parity'
	@echo 'make clean         removes environments, caches and build outputs'

demo: .venv/.installed-demo
	.venv/bin/flatout predict --gpu $(GPUS) examples/digits/train.py
	.venv/bin/flatout predict --gpu $(GPUS) examples/chargpt/train.py

test: .venv/.installed-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python $(PYTEST)

test-vision: .venv-vision/.installed
	.venv-vision/bin/python $(PYTEST)

test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python $(PYTEST) $(OLDEST_TESTS)

accuracy: .venv-vision/.installed .venv-vision/timm-0.6.7/.installed
	.venv-vision/bin/python benchmarks/accuracy/run.py --timm-folder .venv-vision/timm-0.6.7 $(if $(ALL),--all)
	.venv-vision/bin/python benchmarks/accuracy/traces.py
	.venv-vision/bin/python benchmarks/accuracy/inference.py
	.venv-vision/bin/python benchmarks/accuracy/gpt2.py
	.venv-vision/bin/python benchmarks/accuracy/operations.py timm --timm-folder .venv-vision/timm-0.6.7
	.venv-vision/bin/python benchmarks/accuracy/score_costs.py

parity: .venv-parity/.installed
	.venv-parity/bin/python benchmarks/parity/traps.py --json benchmarks/results/parity.json --page docs/loop-parity.md

cost: .venv-parity/.installed
	.venv-parity/bin/python benchmarks/parity/cost.py --seconds $(SECONDS) --json benchmarks/results/loop_cost.json --page docs/loop-parity.md

clean:
	rm -rf .venv .venv-vision .venv-oldest .venv-parity build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environments ---------------------------------------------------------------------------------------------------

# --clear: an environment whose Python is missing was left half made.
.venv/bin/python .venv-vision/bin/python .venv-oldest/bin/python .venv-parity/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "make: no Python 3.10 or newer with the venv module was found (tried python3, python3.10 to python3.14)."; \
		echo "      Install one (Debian, Ubuntu: apt install python3-venv), or name it: make PYTHON=/path/to/python3"; \
		exit 1; fi
	"$(PYTHON)" -m venv --clear $(patsubst %/bin/python,%,$@)

# torch (200 MB or more) is pinned, and installed first, so that nothing else chooses its build. The demo needs less than the tests.
.venv/.installed-demo: pyproject.toml Makefile | .venv/bin/python
	@echo "Installing PyTorch and flatout into .venv: once, a few minutes."
	.venv/bin/python -m pip install $(PIP_ARGS) "torch==2.13.0"
	.venv/bin/python -m pip install $(PIP_ARGS) -e . "scikit-learn>=1.4"
	touch $@

.venv/.installed-test: pyproject.toml Makefile | .venv/bin/python
	@echo "Installing PyTorch, flatout and what its tests need into .venv: once, a few minutes."
	.venv/bin/python -m pip install $(PIP_ARGS) "torch==2.13.0"
	.venv/bin/python -m pip install $(PIP_ARGS) -e ".[test,lint]"
	touch .venv/.installed-demo $@

.venv-vision/.installed: pyproject.toml Makefile | .venv-vision/bin/python
	.venv-vision/bin/python -m pip install $(PIP_ARGS) $(VISION_PACKAGES)
	.venv-vision/bin/python -m pip install $(PIP_ARGS) -e ".[test]"
	touch $@

# The models as they were when timm's table was measured; beside the newest timm, not instead of it.
.venv-vision/timm-0.6.7/.installed: | .venv-vision/.installed
	.venv-vision/bin/python -m pip install --no-deps --target .venv-vision/timm-0.6.7 timm==0.6.7
	touch $@

.venv-oldest/.installed: pyproject.toml Makefile | .venv-oldest/bin/python
	.venv-oldest/bin/python -m pip install $(PIP_ARGS) $(OLDEST_PACKAGES)
	.venv-oldest/bin/python -m pip install $(PIP_ARGS) -e ".[test]" $(OLDEST_PACKAGES)
	touch $@

.venv-parity/.installed: pyproject.toml Makefile | .venv-parity/bin/python
	.venv-parity/bin/python -m pip install $(PIP_ARGS) "torch==2.13.0"
	.venv-parity/bin/python -m pip install $(PIP_ARGS) -e . $(PARITY_PACKAGES)
	touch $@
