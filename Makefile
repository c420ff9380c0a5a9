# make demo   a small collection of synthetic radiographs (or IMAGES=folder), and a page to search it
# make test   every test        make lint   style and types        make bench   the benchmarks, small
PYTHON ?= python3
PORT ?= 8000
DEMO ?= demo
COUNT ?= 600
VENV := .venv
DEBIAN := chromium fonts-dejavu-core orthanc orthanc-dicomweb dcmtk dicom3tools

.PHONY: demo test lint format bench clean debian axe

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable '.[test]'
	touch $@ $(VENV)/installed

demo: $(VENV)/installed
ifdef IMAGES
	$(VENV)/bin/cbir index "$(IMAGES)" --collection $(DEMO)/collection || [ $$? -eq 3 ]
else
	$(VENV)/bin/cbir phantoms $(DEMO)/phantoms --count $(COUNT)
	$(VENV)/bin/cbir index $(DEMO)/phantoms --labels $(DEMO)/phantoms/manifest.csv --collection $(DEMO)/collection
endif
	$(VENV)/bin/cbir serve --collection $(DEMO)/collection --port $(PORT)

# The tests of the page need a real browser: installed here when we may, named otherwise.
debian:
	@missing=""; for package in $(DEBIAN); do \
		dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null \
			|| echo "could not install:$$missing; the tests that need them are skipped and say so"; \
	else echo "not installed:$$missing; the tests that need them are skipped and say so"; fi

# So does the test of its accessibility, on axe-core; npm brings it.
axe:
	@[ -d $(VENV)/axe/node_modules/axe-core ] || \
		{ command -v npm >/dev/null && npm install --silent --no-fund --prefix $(VENV)/axe axe-core@4 >/dev/null; } || \
		echo "axe-core is not installed (npm brings it); the tests that need it are skipped and say so"

test: $(VENV)/installed-test debian axe
	$(VENV)/bin/pytest

lint: $(VENV)/installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/installed-test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/installed-test
	$(VENV)/bin/python bench/describe.py --count 100
	$(VENV)/bin/python bench/index.py --count 600
	$(VENV)/bin/python bench/query.py --sizes 10000 100000
	$(VENV)/bin/python bench/sorters.py --sizes 32x100

clean:
	rm -rf $(VENV) $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis
