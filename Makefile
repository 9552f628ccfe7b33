# Everything runs from a clean clone with nothing but make, Python 3.10 to 3.14 and (brought where possible) Java 17 or 21.
#   make install   .venv with the locked packages, and replica-audit setup; at once when nothing changed
#   make audit     audits the sample whose last standing replica lost records
#   make lint      ruff, mypy, vulture and pyright, locked, in build/lint: style, types, what only tests use, types in the examples of the docs
#   make test-fast the tests that need neither Java nor Chromium nor much time, in two processes
#   make test      the whole suite except Airflow, S3 and brokers, in four processes
#   make test-exhaustive   every history of a replicated partition in up to five events, written as logs, audited and judged
#   make test-spark SPARK=4.0   build/spark-4.0 with the locked packages of that minor of Spark, and every Spark test in it
#   make mutation  changes in the protocol and the rules that no test notices; fails for one that is not in the list of them
#   make fuzz      the parsers and whole snapshots under libFuzzer, coverage-guided, for MINUTES=10; a crash fails it
#   make test-airflow   .venv-airflow with a locked Airflow 3 (Python 3.11 to 3.13), and the DAG really run in it
#   make test-brokers   Kafka's JARs by Maven and build/restore, and the tests that start real brokers (Java)
#   make test-brokers-quick   a quick half of them
#   make install-restore   adds the locked confluent-kafka to .venv: what `replica-audit restore` needs
#   make install-cluster   adds the locked kafka-python to .venv: what `replica-audit observe` needs
#   make test-s3   build/s3 with a locked S3 server, and snapshots and warehouses in it
#   make engines   build/engines with locked DuckDB, Polars and Grafana's types: the queries of docs/queries.md and the dashboard are then tested with them
#   make axe       build/axe with a locked axe-core (npm): what looks over the page for readers who do not see it
#   make dist      wheel and sdist in dist/, checked as a registry does
#   make test-dist the wheel in empty environments, the core with every Python here, all extras with one
#   make wheelhouse   build/wheelhouse: the wheel with every package that it needs, for a machine without a network; EXTRAS=[all]
#   make release   what a release publishes, once the change log names the version: dist, tried and signed, the SBOM and checksums (docs/releasing.md)
#   make zip       build/replica_audit.zip for spark-submit --py-files
#   make environment   build/environment.tar.gz for spark-submit --archives: what executors import
#   make sbom      build/sbom.json: packages and JARs that an installation has (CycloneDX); fails for a licence not yet looked at
#   make advisories   known vulnerabilities of the locked packages (needs PyPI's or OSV's advisories)
#   make lock      resolves the locks anew (needs uv)
#   make clean     removes what was built, installed and written here
# Paths are relative on purpose: the clone may lie in a directory with spaces.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: install audit lint mutation fuzz test-fast test test-exhaustive test-spark dist test-dist wheelhouse release sbom advisories test-airflow test-s3 engines axe test-brokers test-brokers-quick install-restore install-cluster zip environment lock clean
MAKEFLAGS += --no-builtin-rules
# Without bytecode every Python process compiles the project anew, and pytest all tests: a third of what make test costs. Some
# environments have it switched off for pip's sake.
unexport PYTHONDONTWRITEBYTECODE

# PYTHON=... chooses another interpreter for .venv; IVY_SETTINGS=... a mirror for the JARs.
PYTHON ?=
IVY_SETTINGS ?= conf/ivysettings.xml
SAMPLE ?= data/samples/last-replica-standing
PYTEST_ARGS ?=
# Tests that run only when asked for by a target of their own.
OPT_IN := not airflow and not s3 and not brokers

VENV := .venv
STAMPS := $(VENV)/.stamps
RUN := $(VENV)/bin/python

install: $(STAMPS)/setup

# The interpreter: PYTHON, else the first of these that is 3.10 to 3.14 and can make a virtual environment. Of two of one version
# that of the distribution, which was compiled with a profile of its work: one that pyenv compiled takes a seventh longer.
PYTHONS := $(foreach name,python3.11 python3.12 python3.13 python3.10 python3.14 python3,/usr/bin/$(name) $(name))
$(STAMPS)/venv:
	@for candidate in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
	  if "$$candidate" -c 'import sys, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; then \
	    rm -rf $(VENV) && "$$candidate" -m venv $(VENV) && mkdir -p $(STAMPS) && touch $@; exit; \
	  fi; \
	done; \
	echo "error: no Python 3.10 to 3.14 with venv found; install one (Debian: apt-get install python3-venv) or run make install PYTHON=/path/to/python3" >&2; exit 1

# The locks give every package with its hash; pyspark is published as source only and is built with the locked build tools.
$(STAMPS)/packages: $(STAMPS)/venv .locks/build.txt $(wildcard .locks/py3*.txt)
	@lock=$$($(RUN) -c 'import sys; print(".locks/py%d%d.txt" % sys.version_info[:2])'); \
	echo "installing $$lock: a few minutes" >&2; \
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/build.txt; \
	$(RUN) -m pip install -qq --disable-pip-version-check --require-hashes --no-build-isolation --use-pep517 --only-binary :all: --no-binary pyspark -r "$$lock"; \
	touch $@

$(STAMPS)/project: $(STAMPS)/packages pyproject.toml
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# Java comes from the machine. It is brought only where that takes no decision: as root, with apt-get.
$(STAMPS)/java: $(STAMPS)/project
	@if ! $(RUN) -m replica_audit.install.environment 2>/dev/null; then \
	  if [ -z "$${JAVA_HOME:-}" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq >&2 || true; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >&2 \
	      || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless >&2 || true; \
	  fi; \
	  $(RUN) -m replica_audit.install.environment; \
	fi
	@touch $@

# JARs of Delta, classes loaded once and mapped from a file ever after, and the settings for spark-submit on this machine.
$(STAMPS)/setup: $(STAMPS)/java $(wildcard conf/jars-*.lock lib/replica_audit/install/*.py) lib/replica_audit/spark/session.py lib/replica_audit/spark/class_training.py
	@$(VENV)/bin/replica-audit setup --ivy-settings "$(IVY_SETTINGS)" >&2
	@touch $@

audit: install
	$(VENV)/bin/replica-audit run $(SAMPLE) --fail-on never --warehouse replica-audit-warehouse --report replica-audit-report
	@echo "Open replica-audit-report/index.html"

# Style, types, what nothing uses but tests, and the examples as an editor with strict types shows them.
lint: build/lint/bin/ruff $(STAMPS)/project
	@$< check .
	@$< format --check --quiet .
	@PYTHONPATH=build/lint $(RUN) -m mypy
	@PYTHONPATH=build/lint $(RUN) -m vulture
	@PYTHONPATH=build/lint $(RUN) -m tests.docs.typed_examples

# The checkers are no part of .venv: a directory is enough.
build/lint/bin/ruff: $(STAMPS)/venv .locks/lint.txt
	@rm -rf build/lint; echo "installing .locks/lint.txt" >&2; \
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --target build/lint -r .locks/lint.txt; \
	touch $@

# Changes that no test notices, in the protocol and the rules, or in one of them or one module: MUTATION_ARGS="rules --module rep".
MUTATION_ARGS ?=
mutation: build/mutation/tools/.installed
	@PYTHONPATH=build/mutation/tools $(RUN) -m tests.mutation $(MUTATION_ARGS)

build/mutation/tools/.installed: $(STAMPS)/project .locks/mutation.txt
	@rm -rf $(@D); echo "installing .locks/mutation.txt" >&2; \
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation --only-binary :all: --no-binary yattag \
	  --target $(@D) -r .locks/mutation.txt; \
	touch $@

# Every parser from the kept seeds on, in two processes, MINUTES in all; FUZZ_ARGS="segment dump_text" names some.
MINUTES ?= 10
FUZZ_ARGS ?=
fuzz: build/fuzz/tools/.installed
	@PYTHONPATH=build/fuzz/tools $(RUN) -m tests.fuzz --minutes $(MINUTES) $(FUZZ_ARGS)

build/fuzz/tools/.installed: $(STAMPS)/project .locks/fuzz.txt
	@rm -rf $(@D); echo "installing .locks/fuzz.txt" >&2; \
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --target $(@D) -r .locks/fuzz.txt; \
	touch $@

# What an edit of the reading, judging and telling can break. What chance makes is left to make test: the simulated cluster, since
# on few histories its tests cannot see enough cases, states of the model, and random parts of captures, damage, batches, keys and
# edits of bytes, which take a good third of tests/auditing; so are what tasks of Spark discover of every capture, and audits of
# many nights in one warehouse. The first process audits the captures, and tells what it found: once for both rooms.
FAST_NOT := $(addprefix tests/auditing/test_,less_is_never_more.py verdict_and_costs.py random_damage.py batch_rows.py key_store.py gone_since_a_night.py) \
  tests/segments/test_scan_properties.py tests/snapshot/test_spread_discovery.py
# Of the same room, what looks at sources, which the second process parses anyway, and of what makes its snapshots itself as much as
# makes both processes equally long.
FAST_APART := $(addprefix tests/auditing/test_,copies_beside.py epoch_corruption.py families.py finding_rows.py gone_records.py header_evidence.py log_ends.py \
  lost_tails.py moved_partitions.py tiered.py)
FAST_TESTS := tests/protocol tests/segments tests/snapshot tests/docs tests/test_imports.py $(FAST_APART)
test-fast: $(STAMPS)/project
	@mkdir -p build; chosen="not spark and not session and not chromium and not slow and $(OPT_IN)"; \
	$(RUN) -m pytest -q -m "$$chosen" tests/auditing tests/report $(FAST_NOT:%=--ignore=%) $(FAST_APART:%=--ignore=%) $(PYTEST_ARGS) > build/tests-fast.log 2>&1 & others=$$!; \
	status=0; $(RUN) -m pytest -q -m "$$chosen" $(FAST_TESTS) $(FAST_NOT:%=--ignore=%) $(PYTEST_ARGS) || status=$$?; \
	wait $$others || status=$$?; \
	cat build/tests-fast.log; exit $$status

# Where tests of Spark are; pytest refuses one that is elsewhere (tests/conftest.py). To look through all takes ten seconds.
SPARK_TESTS := tests/spark tests/api tests/cli/test_interruption.py tests/test_readme.py
# What audits captures and looks at the answers, which a process keeps; and as much of the rest as makes both processes without
# Spark equally long.
ANSWER_TESTS := tests/auditing tests/collect tests/elect tests/property tests/report tests/salvage tests/verify \
  tests/quality/test_quality_facts.py tests/snapshot tests/hostile tests/quorum
# Four processes side by side, two for the tests without Spark, one for those that share a Spark session and one for those that
# start Spark anew. The latter two have less to do and wait for other processes now and then: the former two give way, fill the
# gaps, and in the end have a core each until both end at about the same time. What three of them print is shown at the end.
test: install
	@mkdir -p build; \
	chosen="not session and not spark and $(OPT_IN)"; \
	nice -n 5 $(RUN) -m pytest -m "$$chosen" $(ANSWER_TESTS) $(PYTEST_ARGS) > build/tests-answers.log 2>&1 & answers=$$!; \
	nice -n 5 $(RUN) -m pytest -m "$$chosen" tests $(ANSWER_TESTS:%=--ignore=%) $(PYTEST_ARGS) > build/tests.log 2>&1 & others=$$!; \
	$(RUN) -m pytest -m "spark and not session and $(OPT_IN)" $(SPARK_TESTS) $(PYTEST_ARGS) > build/tests-spark.log 2>&1 & starting=$$!; \
	status=0; $(RUN) -m pytest -m "session and $(OPT_IN)" $(SPARK_TESTS) $(PYTEST_ARGS) || status=$$?; \
	wait $$starting || status=$$?; \
	cat build/tests-spark.log; \
	wait $$answers || status=$$?; \
	cat build/tests-answers.log; \
	wait $$others || status=$$?; \
	cat build/tests.log; exit $$status

# All short histories of the model in tests/exhaustive, in two processes: EXHAUSTIVE_ARGS="--events 4 --sample 500 --seed 7".
# Then plans for clusters of such partitions, carried out on the model: PLANS_ARGS="--clusters 200 --seed 7".
EXHAUSTIVE_ARGS ?=
test-exhaustive: $(STAMPS)/project
	@$(RUN) -m tests.exhaustive $(EXHAUSTIVE_ARGS)
	@$(RUN) -m tests.exhaustive.plans $(PLANS_ARGS)

# Another minor of Spark has an environment of its own, with a lock of its own; the newest is that of .venv.
SPARK ?= 4.2
OTHER := build/spark-$(SPARK)
build/spark-%/.stamp: .locks/build.txt .locks/spark40.txt .locks/spark41.txt $(wildcard conf/jars-*.lock) pyproject.toml
	@lock=".locks/spark$$(echo $* | tr -d .).txt"; \
	[ -f "$$lock" ] || { echo "error: no lock of Spark $*: SPARK is 4.0, 4.1 or 4.2" >&2; exit 2; }; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
	  if "$$candidate" -c 'import sys, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; then \
	    rm -rf $(@D) && "$$candidate" -m venv $(@D) && break; \
	  fi; \
	done; \
	[ -x $(@D)/bin/python ] || { echo "error: no Python 3.10 to 3.14 with venv found; run make test-spark PYTHON=/path/to/python3" >&2; exit 1; }; \
	echo "installing $$lock" >&2; \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/build.txt; \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation --use-pep517 --only-binary :all: --no-binary pyspark -r "$$lock"; \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .; \
	$(@D)/bin/replica-audit setup --ivy-settings "$(IVY_SETTINGS)" >&2; \
	touch $@

ifeq ($(SPARK),4.2)
test-spark: install
	$(RUN) -m pytest -m "spark and $(OPT_IN)" $(PYTEST_ARGS)
else
test-spark: $(OTHER)/.stamp
	$(OTHER)/bin/python -m pytest -m "spark and $(OPT_IN)" $(PYTEST_ARGS)
endif

# Airflow has an environment of its own: its Spark provider brings another half of pyspark into the same directory.
AIRFLOW := .venv-airflow
$(AIRFLOW)/.stamps/packages: .locks/build.txt .locks/airflow.txt
	@for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3); do \
	  if "$$candidate" -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then \
	    rm -rf $(AIRFLOW) && "$$candidate" -m venv $(AIRFLOW) && break; \
	  fi; \
	done; \
	if [ ! -x $(AIRFLOW)/bin/python ]; then \
	  echo "error: no Python 3.11 to 3.13 with venv found for Airflow; install one or run make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "installing .locks/airflow.txt" >&2; \
	$(AIRFLOW)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/build.txt; \
	$(AIRFLOW)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation --use-pep517 --only-binary :all: --no-binary pyspark-client -r .locks/airflow.txt; \
	mkdir -p $(@D); touch $@

test-airflow: install $(AIRFLOW)/.stamps/packages
	$(RUN) -m pytest -m airflow $(PYTEST_ARGS)

# Tools that look at the locks have an environment of their own, so that they are not in the bill.
SUPPLY := build/supply
$(SUPPLY)/.stamp: $(STAMPS)/venv .locks/supply.txt
	@rm -rf $(SUPPLY); mkdir -p build; $(RUN) -m venv $(SUPPLY); echo "installing .locks/supply.txt" >&2; \
	$(SUPPLY)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/supply.txt; \
	touch $@

sbom: install $(SUPPLY)/.stamp
	@$(SUPPLY)/bin/cyclonedx-py environment $(RUN) --pyproject pyproject.toml --output-reproducible --of JSON -o build/packages.json
	@$(RUN) .ci/sbom.py build/packages.json build/sbom.json

advisories: $(STAMPS)/venv $(SUPPLY)/.stamp
	@$(RUN) .ci/advisories.py $(SUPPLY)/bin/pip-audit .locks/*.txt

# A local S3 server has an environment of its own, since it brings botocore and a web server.
S3 := build/s3
$(S3)/.stamp: $(STAMPS)/venv .locks/s3.txt
	@rm -rf $(S3); mkdir -p build; $(RUN) -m venv $(S3); echo "installing .locks/s3.txt" >&2; \
	$(S3)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/s3.txt; \
	touch $@

test-s3: install $(S3)/.stamp
	$(RUN) -m pytest -m s3 $(PYTEST_ARGS)

# DuckDB and Polars are wanted by the queries of docs/queries.md only, and Grafana's types by a test of the dashboard; the tests find
# them in build/engines.
engines: build/engines/.stamp
build/engines/.stamp: $(STAMPS)/venv .locks/engines.txt
	@rm -rf build/engines; echo "installing .locks/engines.txt" >&2; \
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: --target build/engines -r .locks/engines.txt; \
	touch $@

# axe-core looks over the page in tests; no code of the project is in JavaScript's registry, and nothing else is brought from there.
axe: build/axe/.stamp
build/axe/.stamp: .locks/axe/package.json .locks/axe/package-lock.json
	@command -v npm >/dev/null || { echo "error: make axe needs npm (Debian: apt-get install npm)" >&2; exit 1; }
	@rm -rf build/axe; mkdir -p build/axe; cp $^ build/axe; echo "installing .locks/axe" >&2; \
	npm ci --prefix build/axe --ignore-scripts --no-audit --no-fund --silent; \
	touch $@

# The client of a cluster is wanted by one command only, so it is not part of .venv unless asked for.
install-restore: install
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/restore.txt

install-cluster: install
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/cluster.txt

build/restore/.stamp: $(STAMPS)/venv .locks/restore.txt
	@rm -rf build/restore; echo "installing .locks/restore.txt" >&2; \
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --target build/restore -r .locks/restore.txt; \
	touch $@

build/kafka/.stamp: tests/brokers/pom.xml
	@rm -rf build/kafka; mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/build/kafka"; touch $@

# Brokers of older versions, and those with a remote store, beside those of build/kafka.
build/kafka-%/.stamp: tests/brokers/pom-%.xml
	@rm -rf $(@D); mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(@D)"; touch $@

BROKERS := build/restore/.stamp build/kafka/.stamp build/kafka-3.9.1/.stamp build/kafka-2.8.2/.stamp build/kafka-tiered/.stamp
test-brokers: install $(BROKERS)
	$(RUN) -m pytest -m brokers $(PYTEST_ARGS)

test-brokers-quick: install $(BROKERS)
	$(RUN) -m pytest -m "brokers and not slow" $(PYTEST_ARGS)

# What a release publishes, in dist/, and how a registry will take it. build works on a copy, since setuptools writes beside the sources.
DIST := build/dist-tools
dist: $(DIST)/.stamp
	@rm -rf dist build/dist-source; mkdir -p build/dist-source; git ls-files -z | xargs -0 cp --parents -P -t build/dist-source; \
	$(DIST)/bin/python -m build --no-isolation --outdir dist build/dist-source > build/dist.log 2>&1 || { cat build/dist.log; exit 1; }; \
	$(DIST)/bin/twine check --strict dist/*; $(DIST)/bin/check-wheel-contents dist/*.whl; ls -l dist

$(DIST)/.stamp: $(STAMPS)/venv .locks/build.txt .locks/dist.txt
	@rm -rf $(DIST); mkdir -p build; $(RUN) -m venv $(DIST); echo "installing .locks/dist.txt" >&2; \
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .locks/build.txt -r .locks/dist.txt; \
	touch $@

# The wheel in empty environments, as pip installs it for a user; WHEELS=core leaves the extras out.
WHEELS ?=
test-dist: dist
	@.ci/wheels $(WHEELS)

# What pip needs of an index, for the Python that runs this: the core, or EXTRAS=[spark] and so on.
EXTRAS ?=
wheelhouse: dist
	@rm -rf build/wheelhouse; $(DIST)/bin/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir build/wheelhouse "$$(ls dist/*.whl)$(EXTRAS)"; \
	ls -l build/wheelhouse

# Signed by sigstore, or where there is no network with a key of SSH: SIGNING_KEY=FILE.
SIGNING_KEY ?=
release:
	@version="$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' lib/replica_audit/__init__.py)"; \
	grep -qE "^## \[$$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$$" CHANGELOG.md || { echo "error: CHANGELOG.md has no section for $$version with its day: docs/releasing.md, 2" >&2; exit 1; }; \
	[ -z "$$(git status --porcelain)" ] || { echo "error: files that are not committed would be part of the release" >&2; exit 1; }; \
	$(MAKE) --no-print-directory test-dist sbom; \
	cp lib/replica_audit/collect/collect.py build; \
	{ (cd dist; sha256sum *); (cd build; sha256sum sbom.json collect.py); } > build/SHA256SUMS; rm -f build/SHA256SUMS.sig; \
	if [ -n "$(SIGNING_KEY)" ]; then ssh-keygen -q -Y sign -f "$(SIGNING_KEY)" -n file build/SHA256SUMS; \
	elif command -v sigstore >/dev/null; then sigstore sign --overwrite --output-directory build dist/* build/sbom.json build/collect.py build/SHA256SUMS; \
	else echo "not signed, since there is neither a SIGNING_KEY nor sigstore on the path: docs/releasing.md, 4" >&2; fi

zip: build/replica_audit.zip

# Sources in a fixed order, each beside its compiled form, which other minors of Python pass over; a --py-files zip is
# imported by driver and executors alike, a wheel by the driver only.
build/replica_audit.zip: $(shell find lib -type f -not -name '*.pyc' -not -path '*.egg-info/*' 2>/dev/null)
	@mkdir -p build
	@python="$$(command -v $(RUN) || command -v python3)"; "$$python" -c 'import pathlib, py_compile, sys, tempfile, zipfile; \
	paths = [path for path in sorted(pathlib.Path("lib").rglob("*")) \
	if path.is_file() and path.suffix != ".pyc" and ".egg-info" not in str(path)]; \
	archive = zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED); \
	place, always = tempfile.TemporaryDirectory(), py_compile.PycInvalidationMode.UNCHECKED_HASH; \
	compiled = lambda path: py_compile.compile(path, place.name + "/compiled", str(path), True, invalidation_mode=always); \
	[archive.write(path, path.relative_to("lib")) for path in paths]; \
	[archive.write(compiled(path), path.relative_to("lib").with_suffix(".pyc")) for path in paths if path.suffix == ".py"]; \
	archive.close()' $@
	@echo $@

environment: build/environment.tar.gz

# A virtual environment with the installed packages that executors import, and nothing else. Its bin/python is a link to
# the Python that .venv was made with: that one has to be at the same place on every node. What no task imports is left out,
# compiled modules are not: for them it has pyspark's Python too, since Spark's own zip has none.
EXECUTOR_PACKAGES := numpy pyarrow google-crc32c cramjam pyspark py4j
EXECUTOR_UNUSED := ^pyspark/(jars|bin|sbin|data|examples|licenses|python|pandas|ml|mllib|pipelines)/|(^|/)(tests?|includes?|src|f2py|distutils)/|flight|_cuda|cpp_tests|\.(pyx|pxd|pxi|pyi|h|hpp|cc|a)$$|/libarrow_python\w*\.so(\.\d+\.\d+\.\d+)?$$
# LEVEL=1 takes a third of the time, and an eighth more room.
LEVEL ?= 6
build/environment.tar.gz: $(STAMPS)/packages Makefile
	@mkdir -p build
	@$(RUN) -c 'import pathlib, re, sys, tarfile, tempfile, venv; from importlib import metadata; \
	home = tempfile.TemporaryDirectory(); venv.create(home.name, symlinks=True); \
	packages = next(pathlib.Path(home.name).glob("lib/python3.*/site-packages")).relative_to(home.name); \
	archive = tarfile.open(sys.argv[1], "w:gz", compresslevel=$(LEVEL)); archive.add(home.name, "."); \
	[archive.add(file.locate(), packages / file) for name in sys.argv[3:] for file in metadata.files(name) \
	if ".." not in file.parts and not re.search(sys.argv[2], str(file)) and file.locate().exists()]; archive.close()' $@ '$(EXECUTOR_UNUSED)' $(EXECUTOR_PACKAGES)
	@echo $@

# One lock for each Python, since their newest packages differ; no registry's address is written.
lock:
	@for version in 3.10 3.11 3.12 3.13 3.14; do \
	  uv pip compile --quiet pyproject.toml --extra spark --extra quality --extra test --python-version $$version --python-platform x86_64-manylinux_2_28 \
	    --constraint <(printf 'pyspark==4.2.0\ndelta-spark==4.4.0\n') \
	    --upgrade --generate-hashes --no-emit-index-url --no-header --only-binary :all: --no-binary pyspark \
	    --output-file .locks/py$${version/./}.txt; \
	  sed -i '/^    #   -c \//d' .locks/py$${version/./}.txt; \
	done
	@for pair in 4.0.2,4.0.0,1.18 4.1.1,4.1.0,1.24; do IFS=, read -r spark delta quality <<< "$$pair"; minor="$${spark%.*}"; \
	  printf 'pyspark==%s\ndelta-spark==%s\ngreat-expectations==%s.*\n' "$$spark" "$$delta" "$$quality" \
	  | uv pip compile --quiet pyproject.toml --extra spark --extra quality --extra test --constraint - --python-version 3.10 --universal \
	    --upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate --only-binary :all: --no-binary pyspark \
	    --output-file .locks/spark$${minor/./}.txt; \
	done
	@printf 'ruff\nmypy\nvulture\nbasedpyright\n' | uv pip compile --quiet - --python-version 3.10 --upgrade --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --only-binary :all: --output-file .locks/lint.txt
	@printf 'cyclonedx-bom\npip-audit\n' | uv pip compile --quiet - --python-version 3.10 --upgrade --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --only-binary :all: --output-file .locks/supply.txt
	@printf 'cosmic-ray\n' | uv pip compile --quiet - --python-version 3.10 --upgrade --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --only-binary :all: --no-binary yattag --output-file .locks/mutation.txt
	@printf 'atheris\n' | uv pip compile --quiet - --python-version 3.11 --upgrade --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --only-binary :all: --output-file .locks/fuzz.txt
	@printf 'setuptools>=77\nwheel\n' | uv pip compile --quiet - --python-version 3.10 --upgrade --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --only-binary :all: --output-file .locks/build.txt
	@printf "%s ; python_version < '3.14'\n" apache-airflow==3.3.2 apache-airflow-providers-apache-spark==6.3.4 \
	  | uv pip compile --quiet - --python-version 3.11 --universal --upgrade --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --only-binary :all: --no-binary pyspark-client --output-file .locks/airflow.txt
	@printf 'moto[s3]>=5.2\nflask\nflask-cors\n' | uv pip compile --quiet - --python-version 3.10 --universal --upgrade --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --only-binary :all: --output-file .locks/s3.txt
	@printf 'build\ntwine\ncheck-wheel-contents\nuv\n' | uv pip compile --quiet - --python-version 3.10 --universal --upgrade --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --only-binary :all: --output-file .locks/dist.txt
	@printf 'duckdb\npolars\ngrafana-foundation-sdk ; python_version >= "3.11"\n' | uv pip compile --quiet - --python-version 3.10 --universal --upgrade --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --only-binary :all: --output-file .locks/engines.txt
	@npm install --prefix .locks/axe --package-lock-only --omit-lockfile-registry-resolved --save-dev --save-exact --silent axe-core@latest
	@printf 'confluent-kafka>=2.6,<3\n' | uv pip compile --quiet - --python-version 3.10 --universal --upgrade --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --only-binary :all: --output-file .locks/restore.txt
	@printf 'kafka-python>=3.0.12,<4\n' | uv pip compile --quiet - --python-version 3.10 --universal --upgrade --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --only-binary :all: --output-file .locks/cluster.txt

clean:
	rm -rf $(VENV) $(AIRFLOW) build dist replica-audit-warehouse replica-audit-report spark-warehouse metastore_db derby.log lib/*.egg-info
