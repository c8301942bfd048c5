# `make help` lists the targets. Nothing here needs to be installed by hand but make and Python 3.11.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/submit_tf_job
# mypy checks its cache by the content of files: a fresh checkout type-checks only what has changed.
export MYPY_CACHE_DIR := $(CACHE)/mypy
# Hundreds of processes import the same modules: where a shell forbids bytecode, each of them would compile all of them.
unexport PYTHONDONTWRITEBYTECODE
# TensorFlow for the containers lives outside the checkout: 1.5 GB, and the same for every checkout of this machine.
TF_REQUIREMENTS := specs/requirements-tensorflow.txt
TF_ENV := $(CACHE)/tensorflow-$(shell sha256sum $(TF_REQUIREMENTS) | cut -c1-12)

# What generates clients from the gateway's document holds typer at an older version than users get.
TOOLS_REQUIREMENTS := tests/requirements-tools.txt
TOOLS_ENV := $(CACHE)/tools-$(shell sha256sum $(TOOLS_REQUIREMENTS) | cut -c1-12)

# PyTorch, JAX, Keras 3 and the newest TensorFlow: 9 GB, only for the tests of `make matrix`.
FRAMEWORKS_REQUIREMENTS := specs/requirements-frameworks.txt
FRAMEWORKS_ENV := $(CACHE)/frameworks-$(shell sha256sum $(FRAMEWORKS_REQUIREMENTS) | cut -c1-12)

# Airflow lives there, too, in an environment of its own; every package of it is pinned.
AIRFLOW_ENV = $(CACHE)/airflow-$(1)-$(shell cat .ci/install-airflow tests/airflow/requirements-$(1).txt | sha256sum | cut -c1-12)
AIRFLOW3_ENV := $(call AIRFLOW_ENV,3)

# A random test that fails is reported as it is: to shrink it may take five minutes.
PYTEST := $(BIN)/python -m pytest --hypothesis-profile=gate
# What tests on real clusters get.
TESTED_WITH = SUBMIT_TF_JOB_TEST_TENSORFLOW=$(TF_ENV) SUBMIT_TF_JOB_TEST_AIRFLOW=$(AIRFLOW3_ENV) SUBMIT_TF_JOB_TEST_TOOLS=$(TOOLS_ENV)
# KEEP=1 leaves the clusters of the tests running for the next run; `make clean` ends them.
KEEP ?=
export KEEP

.PHONY: help
help: # list the targets: those that a newcomer needs first, then the others
	@grep -hE '^[a-z-]+:[^#]*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s "$$(printf '\t')"
	@echo
	@grep -hE '^[a-z-]+:[^#]*#\+ ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*#\+ /\t/' | column -t -s "$$(printf '\t')"

$(VENV)/.package: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or later is needed; apt-get install python3.11 python3.11-venv"; exit 1; }
	@echo "installing submit_tf_job into $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing; apt-get install python3-venv"; exit 1; }
	@.ci/pip-install $(VENV) -e .
	@touch $@

# Exactly these files, by their hashes: what runs here also builds and publishes.
$(VENV)/.installed: $(VENV)/.package .ci/requirements.txt
	@echo "installing the development tools into $(VENV)"
	@.ci/pip-install $(VENV) --require-hashes -r .ci/requirements.txt
	@touch $@

.PHONY: requirements
requirements: #+ write .ci/requirements*.txt anew: the newest versions of the development tools, with their hashes
	@.ci/write-requirements

.PHONY: audit
audit: venv #+ look the versions of .ci/requirements*.txt up in the advisory database of the Python index
	$(BIN)/pip-audit --disable-pip --require-hashes -r .ci/requirements.txt -r .ci/requirements-release.txt

# The extra `kerberos` is compiled against MIT's headers, once per machine; only what tests Kerberos needs it.
$(VENV)/.kerberos: $(VENV)/.installed | packages
	@echo "installing the extra kerberos (compiled the first time: a minute)"
	@.ci/pip-install $(VENV) -e '.[kerberos]'
	@touch $@

.PHONY: venv
venv: $(VENV)/.installed # the virtual environment with the package and the development tools

# Debian's packages for one part of the tests, installed by apt where that is possible
.PHONY: java packages packages-all
java:
	@bash .ci/install-packages $(PYTHON) java
packages:
	@bash .ci/install-packages $(PYTHON) java kerberos docker
packages-all:
	@bash .ci/install-packages $(PYTHON) java kerberos docker gateway

$(TF_ENV)/.installed:
	@bash .ci/install-environment $(TF_ENV) $(TF_REQUIREMENTS) tensorflow hdfs_native fsspec sklearn

$(FRAMEWORKS_ENV)/.installed:
	@bash .ci/install-environment $(FRAMEWORKS_ENV) $(FRAMEWORKS_REQUIREMENTS) torch jax tf_keras keras_tuner xgboost ray

$(AIRFLOW3_ENV)/.installed:
	@bash .ci/install-airflow $(AIRFLOW3_ENV) tests/airflow/requirements-3.txt

# Development tools that need other packages than users get.
$(TOOLS_ENV)/.installed:
	@bash .ci/install-environment $(TOOLS_ENV) $(TOOLS_REQUIREMENTS)

.PHONY: tensorflow frameworks airflow tools
tensorflow: $(TF_ENV)/.installed # TensorFlow for the containers of the sandbox
frameworks: $(FRAMEWORKS_ENV)/.installed # PyTorch, JAX and Keras 3, for `make matrix`
airflow: $(AIRFLOW3_ENV)/.installed
tools: $(TOOLS_ENV)/.installed

.PHONY: demo about-demo
about-demo:
	@echo "A real YARN on this machine, a data set on its HDFS, one job of four tasks, a trained model: two minutes."
	@echo "The first time what is missing is installed before: the package into $(VENV), Java and Maven by apt, TensorFlow (1.5 GB) into $(CACHE)."
	@echo "Nothing else of this machine is changed; submit_tf_job sandbox down removes the cluster."
demo: about-demo $(VENV)/.package java tensorflow ## a trained model out of one job spec, on a real YARN on this machine
	@$(BIN)/python specs/digits/demo.py --tensorflow $(TF_ENV)

.PHONY: test
test: ## every promise once, on real clusters: 10 to 20 minutes on two cores; the first time installs 3 GB in 5 more; KEEP=1 keeps the clusters
	@$(TESTED_WITH) $(PYTHON) .ci/stages test $(PYTEST_ARGS)

.PHONY: test-all
test-all: #+ all tests but those of `make matrix`: one to two hours; PART=tests/cluster runs a part
	@$(TESTED_WITH) $(PYTHON) .ci/stages test-all $(PART) $(PYTEST_ARGS)

.PHONY: unit
unit: venv ## the tests of single parts, without server and cluster: half a minute
	$(PYTEST) -n 2 -q -m 'not long and not slow' tests/unit tests/golden $(PYTEST_ARGS)

.PHONY: lint
lint: venv ## ruff, mypy, import rules, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell submit_tf_job docs specs README.md CHANGELOG.md CONTRIBUTING.md

.PHONY: format
format: venv ## let ruff format and mend what it can; fill long lines of the documentation
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	.ci/wrap-docs

.PHONY: goldens
goldens: venv #+ write tests/golden, the tables of messages and of keys, docs/openapi.json, SKILL.md and llms.txt; read the difference
	$(BIN)/python -m tests.unit.jobspec.key_tables
	$(BIN)/python -m tests.unit.gateway.test_app
	$(BIN)/python -m tests.json_page
	$(BIN)/python -m tests.cause_table
	$(BIN)/python .ci/agent_pages.py
	SUBMIT_TF_JOB_TEST_UPDATE_GOLDENS=1 $(BIN)/python -m pytest tests/golden tests/unit/messages -q

.PHONY: bench
bench: $(VENV)/.kerberos tensorflow airflow #+ measure, and write docs/internals/performance.md
	SUBMIT_TF_JOB_TEST_TENSORFLOW=$(TF_ENV) SUBMIT_TF_JOB_TEST_AIRFLOW=$(AIRFLOW3_ENV) $(BIN)/python -m tests.bench; \
		status=$$?; .ci/wrap-docs; exit $$status

.PHONY: site
site: venv ## the documentation as a site with search: build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

.PHONY: dist
dist: ## wheel and sdist, the same byte for byte whenever they are built, and what a user installs with them
	.ci/build-dist $(PYTHON)

.PHONY: screenshots
screenshots: venv java tensorflow # draw docs/images: what the tool shows on a terminal
	SUBMIT_TF_JOB_TEST_TENSORFLOW=$(TF_ENV) $(BIN)/python -m tests.screenshots

# The versions of Hadoop on which the long tests of versions run.
HADOOP_VERSIONS ?= 3.4.2,3.3.5,3.2.1,3.1.3
# PART=NAME runs one part: columns and rows of docs/internals/matrix.md ('hadoop', '3.1.3', 'python 3.12'), or files with long tests
# ('tests/histories', 'tests/cluster/test_ha.py').
PART ?=
PART_IS_FILES := $(filter tests/%,$(PART))
.PHONY: matrix
matrix: $(VENV)/.kerberos packages-all tools tensorflow frameworks airflow #+ every Hadoop and Python version, written to docs/internals/matrix.md, and the long tests; PART=NAME for one part
ifeq ($(PART_IS_FILES),)
	SUBMIT_TF_JOB_TEST_TENSORFLOW=$(TF_ENV) $(BIN)/python -m tests.matrix $(if $(PART),--only '$(PART)')
endif
ifneq ($(if $(PART),$(PART_IS_FILES),all),)
	SUBMIT_TF_JOB_TEST_TENSORFLOW=$(TF_ENV) SUBMIT_TF_JOB_TEST_AIRFLOW=$(AIRFLOW3_ENV) \
	  SUBMIT_TF_JOB_TEST_FRAMEWORKS=$(FRAMEWORKS_ENV) SUBMIT_TF_JOB_TEST_HADOOP=$(HADOOP_VERSIONS) \
	  $(BIN)/python -m pytest -m long --durations=10 $(PART_IS_FILES)
endif

.PHONY: matrix-parts
matrix-parts: venv # list what PART of `make matrix` may be
	@$(BIN)/python -m tests.matrix --list
	@grep -rlE 'mark\.long' tests --include='test_*.py' | sort

.PHONY: clean
clean: #+ end the tests' clusters, and remove what the checkout holds beside its sources
	@[ ! -x $(BIN)/python ] || $(BIN)/python -m tests.clusters down
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
