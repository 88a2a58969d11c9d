# Two commands matter: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test check generate cluster-up cluster-down cluster-shell images bench lock unit clean

# uv stumbles over pyenv's shims, so the real interpreter is found here.
PYTHON313 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python3.13) $(shell command -v python3.13 2>/dev/null))
export UV_PYTHON := $(PYTHON313)
export UV_PYTHON_DOWNLOADS := never
BOOT := .venv/uv
PY := .venv/bin/python
READY := .venv/.ready
LOCALCLUSTER := $(PY) -m localcluster
CLUSTER ?= local
export CLUSTER
TESTS ?=

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml requirements/dev.txt
	@test -n "$(PYTHON313)" || { echo "Python 3.13 is needed: install python3.13, or set PYTHON313=/path/to/python3.13" >&2; exit 1; }
	@echo "Preparing .venv with $(PYTHON313)"
	@rm -rf .venv && $(PYTHON313) -m venv .venv
	@$(PY) -m venv $(BOOT) && $(BOOT)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BOOT)/bin/uv pip sync --quiet --python $(PY) --require-hashes requirements/dev.txt
	@$(BOOT)/bin/uv pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## a real evaluation on a real cluster, from nothing to the score vector
	@$(MAKE) --no-print-directory cluster-up images
	@$(LOCALCLUSTER) shell -- $(CURDIR)/$(PY) -m demo run

test: $(READY) ## every check and every test, on a real cluster
	@$(LOCALCLUSTER) deps tests
	@$(MAKE) --no-print-directory check cluster-up images
	@[ ! -e "$${ASSAY_SHARED:-../shared}/datasets/unpack" ] || { $(PY) -m images build deepswe && $(PY) -m images push deepswe; }
	@scripts/test $(TESTS)

unit: $(READY) ## the tests that need no cluster
	@$(PY) -m pytest tests/unit

check: $(READY) ## formatting, types, layers, Go vet and staticcheck, generated files
	@scripts/check

generate: $(READY) ## CRDs, schemas, stubs and reference pages from the models
	@$(PY) scripts/generate.py
	@$(PY) scripts/generate_proto.py

cluster-up: $(READY) ## start the local Kubernetes (CLUSTER=current uses the kubeconfig's instead)
	@$(LOCALCLUSTER) up

cluster-down: $(READY) ## stop it and leave nothing behind
	@$(LOCALCLUSTER) down

cluster-shell: $(READY) ## a shell with KUBECONFIG and kubectl inside the cluster's namespaces
	@$(LOCALCLUSTER) shell

images: $(READY) ## build what changed and push it to the cluster's registry
	@$(PY) -m images update

bench: $(READY) ## the figures that README quotes
	@$(MAKE) --no-print-directory cluster-up images
	@$(CURDIR)/$(PY) -m benchmarks

lock: $(READY) ## resolve the dependencies anew and pin them with hashes
	@scripts/lock

clean: cluster-down ## stop the cluster and remove the virtual environment
	@rm -rf .venv
