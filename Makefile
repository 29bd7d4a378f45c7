# Every target works on a fresh clone with Python 3.11+ and nothing else: it makes its own .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run test vectors lint types contracts agents forks backends npm otelcol peers browser faults soak fuzz audit check bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml uv.lock
	@echo "onpath: setting up $(VENV); this takes a minute or so, once"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "onpath needs Python 3.11 or later ($(PYTHON) is older); use make PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.8"
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --quiet --frozen --inexact --python $(BIN)/python
	@touch $@

setup: $(STAMP)  ## make .venv with everything in it

run: $(STAMP)  ## start the collector and show it judging four recorded agent runs (ARGS=--once leaves afterwards)
	@$(BIN)/python deploy/demo/run.py $(ARGS)

test: $(STAMP)  ## the test suite
	@$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

vectors: $(STAMP)  ## the shared vectors alone (ARGS="--vectors DIR" for another folder)
	@$(BIN)/python -m pytest tests/vectors $(ARGS)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

contracts: $(STAMP)
	@$(BIN)/lint-imports

agents: $(STAMP)  ## real agent frameworks against the collector, each in a cached venv of its own
	@$(BIN)/python -m pytest tests/agents -m agents $(ARGS)

forks: $(STAMP)  ## servers that fork (gunicorn, uWSGI, Celery, multiprocessing) with onpath inside, each really run
	@$(BIN)/python -m pytest tests/forks -m forks $(ARGS)

backends: $(STAMP)  ## real dashboards (Phoenix, MLflow) and SDKs, each in a cached venv: scores appear where they should
	@$(BIN)/python -m pytest tests/backends -m backends $(ARGS)

faults: $(STAMP)  ## the long forms of what can go wrong: twenty kills under load, full disks, bad downstreams ...
	@$(BIN)/python -m pytest tests/faults tests/integration -m faults $(ARGS)

fuzz: $(STAMP)  ## damaged requests into each decoder of the collector, a minute each (SECONDS=600 SEED=1)
	@ONPATH_FUZZ_SECONDS=$(or $(SECONDS),60) ONPATH_FUZZ_SEED=$(or $(SEED),$(shell date +%s)) $(BIN)/python -m pytest tests/collector/test_fuzz.py $(ARGS)

audit: $(STAMP)  ## known weaknesses of the locked dependencies (asks osv.dev, so not part of check)
	@$(BIN)/uv audit --frozen $(ARGS)

npm: $(STAMP)  ## OpenTelemetry's JavaScript exporters against the receivers, installed from npm
	@$(BIN)/python -m pytest tests/js -m npm $(ARGS)

browser: $(STAMP)  ## the status page in headless Chromium, from the system's packages
	@$(BIN)/python -m pytest tests/status_page -m browser $(ARGS)

otelcol:  ## build the OpenTelemetry Collector of deploy/otelcol from Go modules, once; needs Go
	@$(PYTHON) deploy/otelcol/build.py || test $$? = 3

peers: $(STAMP)  ## beside other programs: the OpenTelemetry Collector, Kafka, Prometheus, helm ... what can't be had is skipped
	@$(BIN)/python -m pytest tests -m peers -n 2 --dist loadfile $(ARGS)

soak: $(STAMP)  ## ten minutes of load with late spans and restarts (ARGS="--seconds 60 --rate 3000")
	@$(BIN)/python -m tests.faults.soak $(ARGS)

check: lint types contracts test agents  ## what CI runs

bench: $(STAMP)  ## measure speed and size on this machine (ARGS=peers: beside others; ARGS=--publish writes deploy/bench.md)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --quiet --frozen --inexact --group bench || echo "onpath: goes on without what is to compare with"
	@$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
