# `make` alone lists the targets. Each one sets up what it needs, and sets it up again only after
# pyproject.toml or a lock file has changed. Keep to what GNU make 3.81 knows: macOS ships it.

PYTHON ?= python3
ARGS =

PY = .venv/bin/python
PIP_INSTALL = $(PY) -m pip --quiet --quiet --disable-pip-version-check install
COMPILE = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(ARGS)

# Which Python .venv is made with: what `make … PYTHON=` names, and otherwise whichever it was made with.
ifneq ($(filter command environment,$(origin PYTHON)),)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV = .venv/.python-$(VERSION)
else
VENV = $(PY)
endif

# Stamps: a stamp that is newer than its lock file says that the lock file is installed.
RUNTIME = .venv/.runtime-installed
DEV = .venv/.dev-installed
SERVERS = .tools/.servers-installed
JAVA = .tools/.java-installed
CLASSES = .tools/.spark-classes-made

CODE = $(wildcard src tests bench examples deploy docs/*.py)

# A .venv whose interpreter is gone (Python was upgraded or moved) is dropped before make looks at its stamps.
$(shell test -x $(PY) || rm -rf .venv)

.PHONY: help setup check test lint format demo docs bench bench-peers sim soak proto reference screenshots lock clean
.DELETE_ON_ERROR:

help:
	@echo 'bucketq: a durable job queue that lives in a bucket.'
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(DEV) $(SERVERS) $(CLASSES) ## Set up everything: packages in .venv, test servers in .tools
	@echo 'setup: ready. Next: make check, or make demo.'

# Quick: whatever needs no server, no Java and no browser, whole; of the rest fewer examples and a few seeds.
QUICK = tests/unit tests/live tests/faults $(addprefix tests/contract/test_,$(addsuffix .py, \
	embedded_queues local_storages file_storage sync))
SEEDS = $(addprefix tests/sim/test_simulation.py::test_,fixed_seeds[0] a_seed_repeats_to_the_byte \
	seeds_about_the_life_of_jobs[1001] seeds_about_whole_segments[1002])

# Files stay together, and begin in the order of tests/conftest.py.
PYTEST = $(PY) -m pytest --dist loadgroup --no-loadscope-reorder

check: lint ## Lint, then the quick tests: a minute, and no server, no Java and no browser
	$(PYTEST) -n 3 --hypothesis-profile quick $(QUICK) $(SEEDS:%='%') tests/property

ifeq ($(ARGS),)
# More workers than there are cores, for tests wait; and not many more, for Spark gives up on slow processes.
test: check $(SERVERS) $(CLASSES) ## make check, then all other tests. Some alone: make test ARGS='-k name'
	$(PYTEST) -n 3 $(QUICK:%=--ignore=%) $(SEEDS:%='--deselect=%')
else
test: lint $(SERVERS) $(CLASSES)
	$(PYTEST) -n 3 $(ARGS)
endif

lint: $(DEV) ## Check style, format and types; change nothing
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m mypy

format: $(DEV) ## Format the code and apply the safe fixes
	$(PY) -m ruff check --fix-only $(CODE)
	$(PY) -m ruff format $(CODE)

demo: $(RUNTIME) $(JAVA) ## A tour in a minute: brokers, workers, a leader that is killed, a report
	@$(PY) -m bucketq.demo $(ARGS)

docs: $(DEV) ## Build the site of the docs into build/site; a warning is an error. Live: make docs ARGS=serve
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs $(or $(ARGS),build)

bench: $(DEV) $(SERVERS) $(JAVA) ## Measure. Options: make bench ARGS='--help'
	@$(PY) -m bench $(ARGS)

bench-peers: $(DEV) ## Compare with Celery, RQ, SAQ and others, and write docs/comparison.md
	@$(PY) -m bench.peers $(ARGS)

sim: $(DEV) ## Search for a seed that breaks a promise. Again: make sim SEED=123
	@$(PY) -m tests.sim $(if $(SEED),--seed $(SEED)) $(ARGS)

soak: $(DEV) $(SERVERS) ## Kill real processes at work, on a file and on SeaweedFS
	@$(PY) -m tests.sim.soak $(ARGS)

proto: $(DEV) ## Generate the messages of proto/ anew
	$(PY) -m grpc_tools.protoc -Iproto --python_out=src --pyi_out=src proto/bucketq/v1/queue.proto

reference: $(DEV) ## Generate docs/reference/cli.md anew, from the command line
	$(PY) -m bucketq.cli.reference > docs/reference/cli.md

screenshots: $(DEV) ## Take the pictures of the dashboard anew, for docs/pictures; needs Chromium
	@$(PY) -m tests.dashboard.screenshots

lock: $(DEV) ## Renew the lock files. To newer versions: make lock ARGS=--upgrade
	$(COMPILE) pyproject.toml requirements.in --extra top --extra broker --extra dashboard --extra traces --extra spark --output-file requirements.lock
	$(COMPILE) pyproject.toml requirements.in --extra broker --constraint requirements.lock \
		--output-file deploy/requirements.lock
	$(COMPILE) requirements-dev.in --output-file requirements-dev.lock
	$(COMPILE) --no-emit-index-url bench/peers/peers.in --output-file bench/peers/peers.lock
	$(COMPILE) --no-emit-index-url bench/peers/taskiq.in --output-file bench/peers/taskiq.lock
	cd tests/tools && npm install --package-lock-only

clean: ## Remove everything that make has made
	rm -rf .venv .tools build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'bucketq needs Python 3.11 or newer, and "$(PYTHON)" is not.' \
			'Name one that is: make setup PYTHON=python3.12' >&2; exit 1; }
	@case "$$($(PY) --version 2>/dev/null)" in \
		"Python $(VERSION)."*) exit 0 ;; \
		"") echo 'setup: making .venv' ;; \
		*) echo "setup: making .venv again: it had $$($(PY) --version), and PYTHON=$(PYTHON) is $(VERSION)" ;; \
	esac; \
	rm -rf .venv; $(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
	@test -e $@ || touch $@

$(RUNTIME): $(VENV) requirements.lock pyproject.toml
	@echo 'setup: installing bucketq and what it needs (Spark is large: a minute or two, the first time)'
	@$(PIP_INSTALL) -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	@echo 'setup: installing what tests, lint and bench need (a minute, the first time)'
	@$(PIP_INSTALL) -r requirements-dev.lock
	@touch $@

$(JAVA): tests/tools/install-java
	@sh tests/tools/install-java $@

$(CLASSES): $(DEV) $(JAVA) tests/spark/class_data.py tests/spark/jvm.py
	@echo 'setup: preparing a quick start of Spark for the tests (half a minute)'
	@$(PY) -m tests.spark.class_data
	@touch $@

$(SERVERS): tests/tools/install tests/tools/package-lock.json
	@sh tests/tools/install .tools $@
