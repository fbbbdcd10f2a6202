# make tune    set everything up into .venv and run the first private study
# make test    set everything up and run the tests; the slowest twenty are listed last
# make one WHAT=method   the tests of one kind of change, about a minute: method, score, mechanism, base, query,
#              column, command, pages
# make planted plant the mistake of every line of tests/promises.md in a copy, and see its test fail (twenty minutes)
# make audit   kill, fuzz and search campaigns; their figures go to docs/tables/audit.txt (half an hour)
# make intruder  attack every server, budget and ledger as another user, an operator and a web page; the figures
#              go to docs/tables/audit.txt (a quarter of an hour; needs root for a second user, Chromium for the page)
# make supply  look the locked dependencies up for known faults; write the bill of materials, sbom.json
# make newest  the tests on the newest releases there are, without our upper bounds (TESTS=tests/flows/test_flow.py for some)
# make pythons the tests on Python 3.12 and 3.13 too (TESTS=… for some; needs both on the path)
# make wheel   build what pip installs, into dist/
# make look    photograph every page that shows a release into docs/pictures (needs Chromium, port 4200 free)
# make docs    build the site into build/site and fail on a warning (needs the group `docs`)
# make docs-run  run what the site shows and takes minutes, and its notebooks; required before a release
# make docs-write PAGES="README.md docs/…"  run pages whole, and write what they print today into them
# make frameworks  install LightGBM, XGBoost, PyTorch, skorch, Opacus, JAX-Privacy and diffprivlib into build/frameworks,
#              and run what is tested and shown with them (five minutes)
# make demo    three hospitals, eight vendors, one search and one cheater, exact and private; its page of pictures goes to
#              docs/pictures/demo.png (five minutes on two idle cores, no network)
# make algorithm-3 (-1, -2; algorithms for all)  a paper's algorithm as published and as corrected, side by side
# make bench   time every part beside its peers; the figures go to docs/tables/performance.txt (a quarter of an hour)
# make compare  every method beside its rivals on public data; the figures go to docs/tables/comparison.txt (hours)
# make papers  every printed number of the three papers beside ours, in docs/tables/printed_numbers.txt and adaptive.txt;
#              resumed where it was interrupted (forty minutes, afresh)
# make pages   write every list, page and printed plan of the documentation that comes from the code (a minute)
# make check   format, lint, types, import rules
# make without FEATURE=watch  delete a feature in a copy, and check and test what is left (a quarter of an hour)
# make lock    pin the dependencies again (after editing pyproject.toml; LOCK=--upgrade for today's releases)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Processes that tests and measurements start find the package compiled, wherever this is set for other reasons.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup tune test one planted audit intruder supply newest pythons look wheel check pages demo bench compare papers docs docs-run docs-write frameworks without format \
	algorithms algorithm-1 algorithm-2 algorithm-3 lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("dpbo needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 setup") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (about a minute, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/dpbo doctor --prepare
	@touch $(STAMP)

tune: $(STAMP)
	@$(BIN)/dpbo tune examples/screening.toml

test: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --durations=20 -m "not slow"

ALWAYS      := test_architecture test_words test_errata
BRIEF       := not planted_violation and not two_hundred_runs and not measured_loss and not measures and not faults and not postgresql \
	and not runs_from_top
one_method  := test_contract test_standings test_audit $(ALWAYS)
one_score   := test_score_contract test_honest_numbers $(ALWAYS)
one_mechanism := test_mechanisms test_sensitive $(ALWAYS)
one_base    := test_private_training $(ALWAYS)
one_query   := test_adding test_one_query $(ALWAYS)
one_column  := test_ledger test_ledger_audit test_ledger_meaning $(ALWAYS)
one_command := test_cli $(ALWAYS)
one_pages   := test_docs test_claims $(ALWAYS)

one: $(STAMP)
	@test -n "$(one_$(WHAT))" || { echo "WHAT is method, score, mechanism, base, query, column, command or pages."; exit 2; }
	@$(BIN)/python -m pytest -q -n 2 -m "not slow" -k "$(BRIEF)" $(foreach name,$(one_$(WHAT)),$(shell find tests -name $(name).py))

planted: $(STAMP)
	@cd tests && ../$(BIN)/python -m planted -j 2

audit: $(STAMP)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m audit
	@DPBO_AT_LENGTH=1 $(BIN)/python -m pytest -n 2 -m "slow or hypothesis" --ignore=tests/house/test_docs.py --ignore=tests/house/test_notebooks.py

intruder: $(STAMP)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m audit intrusion

supply: $(STAMP)
	@cd tests && ../$(BIN)/python -m audit.supply ../sbom.json
	@test -x $(VENV)/supply/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/supply && \
		$(VENV)/supply/bin/python -m pip install --quiet --disable-pip-version-check "pip-audit>=2.9"; }
	@$(VENV)/supply/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps -r requirements.lock || { \
		echo "A dependency has a known fault, or could not be looked up."; exit 1; }

TESTS   ?= tests
RUN     := -m pytest -m "not slow" -p no:cacheprovider $(TESTS)
PYTHONS ?= 3.12 3.13

newest: $(STAMP)
	@mkdir -p build/newest && $(BIN)/python tests/newest.py > build/newest/wanted.txt
	@uv venv --quiet --seed --allow-existing --python $(BIN)/python build/newest/venv
	@uv pip install --quiet --upgrade --python build/newest/venv/bin/python -r build/newest/wanted.txt
	@uv pip install --quiet --no-deps --no-build-isolation --python build/newest/venv/bin/python -e .
	@uv pip freeze --quiet --python build/newest/venv/bin/python > build/newest/resolved.txt
	@build/newest/venv/bin/python $(RUN)

pythons: $(STAMP)
	@for version in $(PYTHONS); do \
		test -x build/python$$version/bin/python || python$$version -m venv build/python$$version || exit 1; \
		build/python$$version/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock || exit 1; \
		build/python$$version/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
			--no-build-isolation -e . || exit 1; \
		build/python$$version/bin/python $(RUN) || exit 1; \
	done

look: $(STAMP)
	@cd tests && ../$(BIN)/python -m audit.look

wheel: $(STAMP)
	@rm -rf build/lib build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/dpbo-*.whl

check: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

pages: $(STAMP)
	@$(BIN)/python tests/write_pages.py

without: $(STAMP)
	@$(BIN)/python tests/without.py $(FEATURE)

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

demo: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/python examples/demo.py docs/pictures/demo.png

algorithms: $(STAMP)
	@$(BIN)/python examples/algorithms.py

algorithm-1 algorithm-2 algorithm-3: algorithm-%: $(STAMP)
	@$(BIN)/python examples/algorithms.py $*

bench: $(STAMP)
	@$(BIN)/python -m benchmarks

$(VENV)/.docs: $(STAMP) pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"  # the first that knows groups
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs -c requirements.lock
	@touch $@

compare: $(STAMP)
	@$(BIN)/python -m benchmarks.compare --out build/comparison
	@cp build/comparison/comparison.json docs/evidence/ && cp build/comparison/pictures/comparison.png docs/pictures/
	@$(BIN)/python tests/write_pages.py

papers: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.papers

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

docs-run: $(VENV)/.docs
	@$(BIN)/python -m pytest -m slow tests/house/test_docs.py tests/house/test_notebooks.py
	@echo "All pages were run with $$($(BIN)/python -m pip list 2>/dev/null | sed -n 's/^dpbo  */dpbo /p' | cut -d' ' -f1,2)." > docs/tables/docs_run.txt

docs-write: $(VENV)/.docs
	@$(BIN)/python tests/write_pages.py $(PAGES)

FOREIGN := build/frameworks

$(FOREIGN)/.installed: $(STAMP) requirements.lock pyproject.toml
	@mkdir -p $(FOREIGN)
	@sed '/^mpmath==/d' requirements.lock > $(FOREIGN)/frameworks.txt  # GPyTorch, which Ax stands on, wants mpmath 1.3
	@sed '/^scikit-learn==/d' requirements.lock > $(FOREIGN)/diffprivlib.txt
	@for group in frameworks diffprivlib; do \
		test -x $(FOREIGN)/$$group/bin/python || $(PYTHON) -m venv $(FOREIGN)/$$group || exit 1; \
		python=$(FOREIGN)/$$group/bin/python; \
		$$python -m pip install --quiet --disable-pip-version-check "pip>=25.1" || exit 1; \
		$$python -m pip install --quiet --disable-pip-version-check -r $(FOREIGN)/$$group.txt --group $$group || exit 1; \
		$$python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . || exit 1; \
	done
	@touch $@

frameworks: $(FOREIGN)/.installed
	@OMP_NUM_THREADS=1 $(FOREIGN)/diffprivlib/bin/python -m pytest --durations=3 tests/features/*/frameworks/diffprivlib_*.py
	@OMP_NUM_THREADS=1 $(FOREIGN)/frameworks/bin/python -m pytest --durations=12 tests/frameworks/*.py \
		$(filter-out %/conftest.py $(wildcard tests/features/*/frameworks/diffprivlib_*.py),$(wildcard tests/features/*/frameworks/*.py))

lock:
	uv pip compile --quiet --universal --no-emit-index-url --no-header --python-version 3.11 \
		--extra postgres --extra team --group dev pyproject.toml -o requirements.lock $(LOCK)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
