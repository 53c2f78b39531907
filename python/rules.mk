# The Python package: a wheel, its tests, its lint. Included by ../Makefile. setup.py calls make for the library.

.PHONY: python test-python lint-python
python:
	$(Q)python3 -m pip wheel --quiet --no-deps --wheel-dir $(BUILD)/python .
	@ls $(BUILD)/python/*.whl

test-python: $(BUILD)/shufflefs $(BUILD)/$(SONAME)
	@python3 tests/python/run.py --binary-dir $(BUILD)

lint-python:
	@scripts/lint-python
