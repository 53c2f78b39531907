# shufflefs. `make help` lists what can be made. Quiet; V=1 shows the commands.

PREFIX      ?= /usr/local
BINDIR      ?= $(PREFIX)/bin
MANDIR      ?= $(PREFIX)/share/man
DOCDIR      ?= $(PREFIX)/share/doc/shufflefs
UNITDIR     ?= $(PREFIX)/lib/systemd/system
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions

BUILD   ?= build
CC      ?= cc
OPT     ?= -O2 -g
WERROR  ?=
PACKAGES := fuse3 libarchive inih libxxhash jansson libjpeg libpng nettle zlib

CFLAGS_ALL = -std=gnu17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra $(WERROR) $(OPT) -pthread -fno-strict-aliasing \
             $(shell pkg-config --cflags $(PACKAGES)) $(CFLAGS)
LIBS_CORE  = $(shell pkg-config --libs libarchive inih libxxhash jansson zlib) -lm
LIBS_JSON  = $(shell pkg-config --libs jansson) -lm
LIBS_HASH  = $(shell pkg-config --libs nettle)
LIBS_FUSE  = $(shell pkg-config --libs fuse3)
LIBS_IMAGE = $(shell pkg-config --libs libjpeg libpng) -lm

CORE  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/*.c))
MEASURE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard measure/*.c))
FS    := $(patsubst %.c,$(BUILD)/%.o,$(wildcard fs/*.c))
FS_LIB := $(filter-out $(BUILD)/fs/main.o,$(FS))
PACK  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard pack/*.c))
TOP   := $(patsubst %.c,$(BUILD)/%.o,$(wildcard top/*.c))
LOADER := $(patsubst %.c,$(BUILD)/%.o,$(wildcard loader/*.c))
CHECK := $(patsubst %.c,$(BUILD)/%.o,$(wildcard check/*.c))
SURVEY := $(patsubst %.c,$(BUILD)/%.o,$(wildcard survey/*.c))
TOOLS := $(patsubst tools/%.c,$(BUILD)/%,$(wildcard tools/*.c))
UNITS := $(wildcard tests/unit/test_*.c) tests/unit/shard.c tests/unit/opened.c tests/unit/viewed.c tests/unit/picture.c tests/unit/load.c tests/unit/fake_cuda.c tests/unit/fake_nvjpeg.c
SLOWFS = $(BUILD)/tests/slowfs
MOUNT_TESTS := tests/slowfs tests/shares
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
ROOMS := core fs measure pack survey top check loader tools tests/unit tests/mount tests/loader tests/gpu tests/fuzz bench
SOURCES := $(foreach room,$(ROOMS),$(wildcard $(room)/*.[ch])) $(wildcard loader/*.cu tests/gpu/*.cu loader/examples/*)

ifneq ($(V),1)
  Q := @
  say = @printf '  %-7s %s\n' $(1) $(2)
endif

.PHONY: all help deps demo test test-loaders unit mount-test san check lint format fuzz bench install uninstall clean
all: $(BUILD)/shufflefs $(TOOLS)

help:
	@echo 'make            build everything into $(BUILD)/'
	@echo 'make demo       install what is missing, build, mount a small real data set, read it, unmount'
	@echo 'make test       install what is missing, build, run all tests (unit and mount; plain, ASan+UBSan, TSan)'
	@echo 'make check      the plain unit and mount tests alone'
	@echo 'make test-gpu   what only a machine with a GPU can show: build/gpu.md'
	@echo 'make test-loaders  the recipes of docs/loaders.md, and the Python package beside torch, in a Python that it makes, or in LOADERS_PYTHON=PYTHON'
	@echo 'make san        the sanitizer builds'"'"' tests alone'
	@echo 'make lint       warnings as errors, clang-format, clang-tidy, cppcheck, and make lint-python'
	@echo 'make lint-python  ruff and mypy, which it gets by pip into build/lint/venv'
	@echo 'make python     a wheel of the Python package, in $(BUILD)/python; make test-python'
	@echo 'make fuzz       the decoders on broken input, with clang and libFuzzer (FUZZ_SECONDS=60)'
	@echo 'make bench      side by side with ext4, squashfuse_ll and ratarmount; build/bench.md (PHOTOS=DIR, BENCH_ARGS=...)'
	@echo 'make install    to $$(DESTDIR)$(PREFIX)'

$(BUILD)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# For a shared library that exports what it chooses to; the same arithmetic on every machine, and the same bytes wherever it is
# built: no folder's name in what is for debuggers.
$(LOADER): CFLAGS_ALL += -fPIC -fvisibility=hidden -ffp-contract=off -ffile-prefix-map=$(CURDIR)=.

$(BUILD)/image-%: $(BUILD)/tests/loader/image-%.o $(LOADER)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_LOADER)

$(BUILD)/shufflefs: $(FS) $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON)

$(BUILD)/shufflefs-%: $(BUILD)/tools/shufflefs-%.o $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE) $(LIBS_JSON)

$(BUILD)/shufflefs-top: $(TOP)

$(BUILD)/shufflefs-order: $(SURVEY)

$(BUILD)/shufflefs-bench: $(BUILD)/tools/shufflefs-bench.o $(MEASURE) $(CORE) $(BUILD)/libshuffleload.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE) $(LIBS_JSON) $(LIBS_LOADER) $(LIBS_CUDA)

$(BUILD)/shufflefs-check: $(BUILD)/tools/shufflefs-check.o $(CHECK) $(CORE) $(LOADER)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE) $(LIBS_JSON) $(LIBS_LOADER) $(LIBS_HASH)

# Pictures are made smaller by what the loader decodes with, of which its library exports nothing.
$(BUILD)/shufflefs-pack: $(BUILD)/tools/shufflefs-pack.o $(PACK) $(CORE) $(LOADER)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE) $(LIBS_JSON) $(LIBS_LOADER)

# The unit tests twice: under Criterion, and in the plain runner that sanitizers and valgrind can see into.
UNIT_ROOMS := $(CORE) $(FS_LIB) $(MEASURE) $(PACK) $(SURVEY) $(TOP) $(CHECK) $(LOADER)
$(BUILD)/unit-criterion: $(patsubst %.c,$(BUILD)/%.o,$(UNITS)) $(UNIT_ROOMS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON) $(LIBS_IMAGE) $(LIBS_HASH) $(shell pkg-config --libs criterion)

$(BUILD)/plain/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -DPLAIN_RUNNER -MMD -MP -c -o $@ $<

$(BUILD)/unit-plain: $(patsubst %.c,$(BUILD)/plain/%.o,$(UNITS) tests/unit/runner.c) $(UNIT_ROOMS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON) $(LIBS_IMAGE) $(LIBS_HASH)

# Slow and failing storage, for the mount tests and the benchmark.
$(BUILD)/tests/slowfs: $(BUILD)/tests/mount/slowfs.o
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE)

# What a share has, without a mount.
$(BUILD)/tests/shares: $(BUILD)/tests/mount/shares.o $(BUILD)/fs/grammar.o $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE)

ASAN := BUILD=build/asan OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'
TSAN := BUILD=build/tsan OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=thread'

deps:
	@scripts/install-deps build test

demo:
	@scripts/install-deps build demo
	$(Q)$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

check: all $(BUILD)/unit-criterion $(BUILD)/unit-plain $(BUILD)/image-probe $(MOUNT_TESTS:%=$(BUILD)/%)
	@tests/run --build $(BUILD)

san:
	$(Q)$(MAKE) --no-print-directory $(ASAN) all build/asan/unit-plain $(MOUNT_TESTS:%=build/asan/%) $(FUZZ_SHORT:%=build/asan/%)
	$(Q)$(MAKE) --no-print-directory $(TSAN) all build/tsan/unit-plain $(MOUNT_TESTS:%=build/tsan/%)
	@tests/run --asan build/asan --tsan build/tsan

test:
	@scripts/install-deps build test
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/unit-criterion $(BUILD)/unit-plain $(BUILD)/image-probe $(MOUNT_TESTS:%=$(BUILD)/%)
	$(Q)$(MAKE) --no-print-directory $(ASAN) all build/asan/unit-plain $(MOUNT_TESTS:%=build/asan/%) $(FUZZ_SHORT:%=build/asan/%)
	$(Q)$(MAKE) --no-print-directory $(TSAN) all build/tsan/unit-plain $(MOUNT_TESTS:%=build/tsan/%)
	@tests/run --build $(BUILD) --asan build/asan --tsan build/tsan

# Without LOADERS_PYTHON: several GB of packages, once, in $(BUILD)/loaders-python.
test-loaders: all $(BUILD)/libshuffleload.so
	@scripts/install-deps loaders
	$(Q)python=$(LOADERS_PYTHON); [ -n "$$python" ] || python=$$(scripts/loaders-python $(BUILD)/loaders-python) && \
	    LOADERS_PYTHON=$$python tests/loaders/run.py --binary-dir $(BUILD) $(TEST_ARGS) && \
    { [ -n "$(TEST_ARGS)" ] || $$python tests/python/run.py --slow --binary-dir $(BUILD); }

lint:
	@scripts/install-deps build lint
	$(Q)$(MAKE) --no-print-directory BUILD=build/lint WERROR=-Werror all $(MOUNT_TESTS:%=build/lint/%)
	@scripts/lint $(SOURCES)
	@scripts/lint-python

format:
	clang-format -i $(SOURCES)

# Each fuzzer for FUZZ_SECONDS, from its own seeds; what it finds stays in $(BUILD)/fuzz. Inputs are not
# made smaller: libjpeg, libpng and libarchive are not instrumented, and a short file says the same as a
# whole one. Tars are long for the little they hold. Short stack traces of allocations: those of libarchive
# took a quarter of the time.
FUZZ_SECONDS ?= 60
FUZZ_ARGS    ?=
FUZZ_FLAGS   := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
fuzz:
	@scripts/install-deps build fuzz
	$(Q)$(MAKE) --no-print-directory $(FUZZERS)
	$(Q)for fuzzer in $(FUZZERS); do \
	    mkdir -p $$fuzzer.corpus && \
	    FUZZ_SEEDS=$$fuzzer.corpus $$fuzzer -runs=0 -verbosity=0 && \
	    case $$fuzzer in *_tar | *_walk) length=8192 ;; *) length=4096 ;; esac && \
	    ASAN_OPTIONS=malloc_context_size=3 $$fuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=$$length -timeout=10 -reduce_inputs=0 -print_final_stats=1 \
	        -artifact_prefix=$$fuzzer. $(FUZZ_ARGS) $$fuzzer.corpus || exit 1; \
	done

# Those of core/'s code without libFuzzer, for a few seconds in every test run: no clang is needed.
FUZZ_SHORT := fuzz-short-walk fuzz-short-names
$(BUILD)/fuzz-short-%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/driver.o $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE)

# Those of core/'s code; checksums count as right in them.
FUZZERS_CORE := $(patsubst %,$(BUILD)/fuzz/fuzz_%,index config walk names numbers)
$(FUZZERS_CORE): $(BUILD)/fuzz/%: tests/fuzz/%.c $(wildcard tests/fuzz/*.h core/*.[ch])
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)clang $(CFLAGS_ALL) -O1 $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(LIBS_CORE)

# Names as the mount parses them, and its status as shufflefs-top does.
FUZZERS_MOUNT := $(BUILD)/fuzz/fuzz_view $(BUILD)/fuzz/fuzz_status
$(FUZZERS_MOUNT): $(BUILD)/fuzz/%: tests/fuzz/%.c $(wildcard tests/fuzz/*.h core/*.[ch] top/*.[ch]) $(filter-out fs/main.c,$(wildcard fs/*.[ch]))
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)clang $(CFLAGS_ALL) -O1 $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON)

$(BUILD)/fuzz/%: tests/fuzz/%.c tests/unit/picture.c $(wildcard tests/fuzz/*.h loader/*.[ch])
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)clang $(CFLAGS_ALL) -O1 $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(LIBS_LOADER) -lz

bench: all $(SLOWFS)
	@bench/run --binary-dir $(BUILD) $(if $(PHOTOS),--photos $(PHOTOS)) $(BENCH_ARGS)

install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(DOCDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(BASHCOMPDIR)
	install -m 755 $(BUILD)/shufflefs $(TOOLS) $(DESTDIR)$(BINDIR)
	install -m 644 man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 README.md LICENSE etc/shufflefs.conf $(DESTDIR)$(DOCDIR)
	install -d $(DESTDIR)$(DOCDIR)/docs/figures
	install -m 644 docs/*.md $(DESTDIR)$(DOCDIR)/docs
	install -m 644 docs/figures/* $(DESTDIR)$(DOCDIR)/docs/figures
	install -m 644 etc/shufflefs@.service $(DESTDIR)$(UNITDIR)
	install -m 644 etc/shufflefs.bash-completion $(DESTDIR)$(BASHCOMPDIR)/shufflefs
	for tool in $(notdir $(TOOLS)); do ln -sf shufflefs $(DESTDIR)$(BASHCOMPDIR)/$$tool; done

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/shufflefs $(patsubst $(BUILD)/%,$(DESTDIR)$(BINDIR)/%,$(TOOLS))
	rm -f $(patsubst man/%,$(DESTDIR)$(MANDIR)/man1/%,$(wildcard man/*.1))
	rm -f $(DESTDIR)$(UNITDIR)/shufflefs@.service
	rm -f $(DESTDIR)$(BASHCOMPDIR)/shufflefs $(patsubst $(BUILD)/%,$(DESTDIR)$(BASHCOMPDIR)/%,$(TOOLS))
	rm -rf $(DESTDIR)$(DOCDIR)

clean:
	rm -rf build

include loader/rules.mk python/rules.mk

-include $(shell find $(BUILD) -name '*.d' -not -path '$(BUILD)/asan/*' -not -path '$(BUILD)/tsan/*' -not -path '$(BUILD)/lint/*' 2>/dev/null)
.SECONDARY:
