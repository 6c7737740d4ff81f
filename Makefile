# Everything a developer does, one target each. `make` alone prints this list.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup java jars demo test test-all lint docs bench bench-feed bench-scale long-run tpch fuzz fuzz-rules events soak load torn kills cluster clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) java ## Make .venv, install everything into it, see that Java is there

demo: setup ## Run the demo: a small shop, five stream tables, four rounds of changes (under 3 minutes)
	@$(BIN)/trickle demo

test: setup jars ## Run the test suite in two processes (about 20 minutes on 2 cores)
	@scripts/need-postgres.sh
	@scripts/need-chromium.sh
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: setup jars ## The same with its slow crosses: every event on two kinds of table, TPC-H round by round
	@scripts/need-postgres.sh
	@scripts/need-chromium.sh
	TRICKLE_TEST_ALL=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(STAMP) ## Check style (ruff), types (mypy strict) and layers (import-linter)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(STAMP) ## Write the generated pages of docs/
	$(BIN)/python scripts/generate_docs.py

bench: setup ## Measure DIFFERENTIAL against FULL on a million rows, 60 stream tables, 300 columns (about 8 minutes)
	$(BIN)/python benchmarks/bench.py --more $(ARGS)

SF ?= 1
bench-feed: setup ## Measure the change feed of a table of 200 files of which one changed (SF=1, scale factor)
	$(BIN)/python benchmarks/feed.py --sf $(SF) $(ARGS)

bench-scale: setup ## Measure refreshes against plain queries on a large TPC-H lake: SF=10 LAKE=FOLDER, which is kept (hours)
	$(BIN)/python benchmarks/scale.py --sf $(SF) $(if $(LAKE),--lake $(LAKE)) $(ARGS)

long-run: setup ## Does the last of many small refreshes cost what the tenth did, with and without maintenance (REFRESHES=2000; hours)
	$(BIN)/python benchmarks/long_run.py --refreshes $(or $(REFRESHES),2000) $(ARGS)

tpch: setup ## Keep the 22 queries of TPC-H through rounds of changes, against FULL (SF=1, scale factor)
	$(BIN)/python benchmarks/tpch.py --sf $(SF) $(ARGS)

fuzz: setup ## Try to break it with random queries and changes: SECONDS=600 SEED=1, or QUERIES=500
	$(BIN)/python -m tests.fuzz.run --seconds $(or $(SECONDS),$(if $(QUERIES),86400,600)) --seed $(or $(SEED),1) \
	  $(if $(QUERIES),--queries $(QUERIES)) $(ARGS)

fuzz-rules: setup ## The same queries, the delta rules alone and without a lake, many more in the time: SECONDS=600 SEED=1, or QUERIES=3000
	$(BIN)/python -m tests.fuzz.rules --seconds $(or $(SECONDS),$(if $(QUERIES),86400,600)) --seed $(or $(SEED),1) \
	  $(if $(QUERIES),--queries $(QUERIES)) $(ARGS)

events: setup ## Play every event on every kind of Iceberg table, and random sequences: SEED=1 SEQUENCES=5 (over an hour)
	$(BIN)/python -m tests.events.run --seed $(or $(SEED),1) --sequences $(or $(SEQUENCES),5) $(ARGS)

soak: setup ## Run a service over a million rows under load: are its tables fresh, what does it take (SECONDS=600)
	$(BIN)/python -m tests.service.soak --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1) $(ARGS)

load: setup ## Ask a service 200 times a second while its refreshes run: times of the answers (SECONDS=60 RATE=200)
	$(BIN)/python -m tests.service.load --seconds $(or $(SECONDS),60) --rate $(or $(RATE),200) $(ARGS)

torn: setup ## Read random DAGs of groups while they are refreshed and fail: no torn read at a cut (READS=2000; about 10 minutes)
	$(BIN)/python -m tests.groups.torn --reads $(or $(READS),2000) --seed $(or $(SEED),1) $(ARGS)

kills: setup ## Kill and pause a service at named points of a refresh and at random moments (KILLS=100; about 30 minutes)
	$(BIN)/python -m tests.service.kills --kills $(or $(KILLS),100) --seed $(or $(SEED),1) $(ARGS)

cluster: setup jars ## Run the demo, the invariant test and large changes on Spark's standalone master and two workers (about 15 minutes)
	$(BIN)/python scripts/cluster.py $(ARGS)

clean: ## Remove what the other targets made, .venv included
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis demo-lakehouse

java:
	@scripts/need-java.sh

jars: $(VENV)/.jars

$(VENV)/.jars: $(STAMP) | java
	@echo "Fetching the jars that Spark needs (70 MB), archiving its classes (170 MB; once)"
	@$(BIN)/python scripts/prepare_spark.py
	@touch $@

# The stamp is newer than pyproject.toml exactly when the environment is up to date.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV)"; $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "On Debian: apt-get install python3-venv" >&2; exit 1; }; }
	@echo "Installing spark-trickle and its dependencies into $(VENV) (Spark is 450 MB; once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
