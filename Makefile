# Each target but `upgrade` installs its requirements in the versions of requirements-lock.txt; `make run` needs only make and
# Python 3.11 to 3.14. The environment is in .venv. Empty stamp files in it (.app, .dev, .lab, .clients) show which requirements
# are installed; a stamp older than its requirements file or the lock is out of date.

VENV   := .venv
PYTHON := $(VENV)/bin/python
PIP    := $(PYTHON) -m pip --disable-pip-version-check -q
# With PIP_USER=1, as some hosts set it, pip refuses to install into an environment.
export PIP_USER := 0
LOCK   := requirements-lock.txt
RESEMBLYZER := resemblyzer==0.1.4  # without its dependencies, which need a compiler: only its weights are used
ARGS   ?=
WORK   ?= $(HOME)/.cache/reprise/training
KEPT   ?= $(WORK)/kept
OUT    ?= $(WORK)/packed

# An environment whose Python is gone, as after an upgrade of the system, is made and filled again.
$(shell test -e $(VENV)/bin/python || rm -f $(VENV)/.app $(VENV)/.dev $(VENV)/.lab $(VENV)/.clients)

.DEFAULT_GOAL := help
.PHONY: help run test test-cluster check style format attack bench bench-gpu bench-speaking bench-scale bench-codec bench-quality bench-precision data train pack train-recogniser samples pages upgrade clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.app  ## start the page (options: ARGS="--port 8000 --model …")
	$(PYTHON) app.py $(ARGS)

test: style  ## style, types, then every test that needs no GPU
	@scripts/install-test-packages $(PYTHON)
	@scripts/can-build $(PYTHON) && $(MAKE) --no-print-directory $(VENV)/.lab || \
		echo "MISSING: pyworld, pocketsphinx, resemblyzer and speechmos; the tests of training and judging that need them will be skipped."
	@$(MAKE) --no-print-directory $(VENV)/.clients || \
		echo "MISSING: clients of the API (requirements-clients.txt); the tests that speak with them will be skipped."
	@scripts/test-js
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -m "not gpu and not cluster" -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)
	@$(MAKE) --no-print-directory test-cluster ARGS=

test-cluster: $(VENV)/.dev  ## the tests that start a Ray cluster on this machine, in a process of their own
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -m cluster tests/studio/cluster $(ARGS)

check: style  ## style, types and import directions only
	$(PYTHON) -m pytest -q tests/test_imports.py tests/test_layout.py

style: $(VENV)/.dev
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(VENV)/bin/oxlint web/static tests/web/js
	$(VENV)/bin/hadolint Dockerfile
	@# Status 2 is no error in a type: on a busy machine mypy's workers may start too late.
	$(PYTHON) -m mypy -n auto || { test $$? -eq 2 && $(PYTHON) -m mypy; }

format: $(VENV)/.dev  ## rewrite the sources as `make check` wants them
	$(PYTHON) -m ruff check --fix-only .
	$(PYTHON) -m ruff format .

attack: $(VENV)/.dev  ## the whole attack, in a folder of its own (ARGS="--only soak --minutes 120", ARGS="--document")
	$(PYTHON) -m tests.attack $(ARGS)

bench: $(VENV)/.dev  ## speed, memory and exactness on this machine, and docs/performance.md (ARGS="--only floor")
	$(PYTHON) -m benchmarks.run $(ARGS)

# With PYTHON=python3, a Python that has the packages already, no environment is made: for machines without a network.
bench-gpu: $(if $(filter $(VENV)/%,$(PYTHON)),$(VENV)/.dev)  ## the tests and benchmarks of a CUDA device (ARGS="--only tests floor --minutes 9")
	$(PYTHON) -m benchmarks.run --gpu $(ARGS)

bench-speaking: $(VENV)/.app  ## real-time factor and first audio
	$(PYTHON) -m benchmarks.speed.speaking $(ARGS)

bench-scale: $(VENV)/.dev  ## replicas on a cluster of this machine, and what many listeners need on paper
	$(PYTHON) -m benchmarks.scale.replicas
	$(PYTHON) -m benchmarks.scale.capacity $(ARGS)

bench-codec: $(VENV)/.app  ## the codec's views: memory, exactness
	$(PYTHON) -m benchmarks.memory.codec_views $(ARGS)

# The options are those that all four take: --model, --device, --name and those of sampling.
bench-quality: $(VENV)/.lab  ## measure the quality of the bundled model's speech (ARGS="--model FOLDER --name mine")
	$(PYTHON) -m benchmarks.quality.voice_quality --keep $(KEPT) $(ARGS)
	$(PYTHON) -m benchmarks.quality.quality_page $(KEPT)
	$(PYTHON) -m benchmarks.quality.endings $(ARGS)
	$(PYTHON) -m benchmarks.quality.real_person $(ARGS)
	$(PYTHON) -m benchmarks.quality.word_times $(ARGS)

bench-precision: $(VENV)/.lab  ## what weights in fewer bits change: codes, ends, words (ARGS="--precision int4")
	$(PYTHON) -m benchmarks.quality.quantization --words $(ARGS)

data: $(VENV)/.lab  ## the training speech alone (the first stage of make train)
	$(PYTHON) -m training.pipeline --work $(WORK) --until speech $(ARGS)
	$(PYTHON) -m training.speech.corpus --work $(WORK)

train: $(VENV)/.lab  ## make the bundled model from nothing, or go on; minutes with ARGS="--setting tiny"
	$(PYTHON) -m training.pipeline --work $(WORK) $(ARGS)

pack: $(VENV)/.lab  ## pack training speech and codes for a machine without network (OUT=FOLDER; unpack: docs/training.md)
	$(PYTHON) -m training.packing pack --work $(WORK) --out $(OUT) $(ARGS)

train-recogniser: $(VENV)/.lab  ## retrain the phone recogniser of the benchmarks
	$(PYTHON) -m training.recogniser.train --work $(WORK) $(ARGS)

pages: $(VENV)/.dev  ## the pictures of docs/pages
	$(PYTHON) -m scripts.screenshots

samples: $(VENV)/.lab  ## render the sample voices anew (ARGS="--codec FOLDER")
	$(PYTHON) -m training.make_samples $(ARGS)

# These dependencies conflict with ours.
$(VENV)/.clients: requirements-clients.txt | $(PYTHON)
	$(PYTHON) -m venv --clear $(VENV)/clients
	$(VENV)/clients/bin/python -m pip --disable-pip-version-check -q install -r requirements-clients.txt
	@command -v npm >/dev/null && npm install --silent --no-fund --no-audit --prefix $(VENV)/clients "openai@6" || \
		echo "MISSING: npm; OpenAI's package for Node will not be tested."
	@touch $@

upgrade: | $(PYTHON)  ## install the newest versions that the requirements allow (CONTRIBUTING.md)
	$(PIP) install --upgrade --upgrade-strategy eager -r requirements-lab.txt -r requirements-extra.txt
	$(PIP) install --no-deps $(RESEMBLYZER)
	@touch $(VENV)/.app $(VENV)/.dev $(VENV)/.lab

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PYTHON):
	@python="$$(scripts/find-python)" && echo "Making .venv with $$python" && "$$python" -m venv --clear $(VENV)

$(VENV)/.app: requirements.txt $(LOCK) | $(PYTHON)
	@echo "Installing what the app needs; the first time this takes a few minutes."
	@$(PIP) --version >/dev/null 2>&1 || $(PYTHON) -m ensurepip
	$(PIP) install -r requirements.txt -c $(LOCK)
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.app
	$(PIP) install -r requirements-dev.txt -c $(LOCK)
	@touch $@

$(VENV)/.lab: requirements-lab.txt $(VENV)/.dev
	$(PIP) install -r requirements-lab.txt -c $(LOCK)
	$(PIP) install --no-deps $(RESEMBLYZER)
	$(PYTHON) -c "import librosa; librosa.feature.melspectrogram"  # compiles functions, once for this environment
	@touch $@
