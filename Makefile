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
PACKAGES := fuse3 libarchive inih libxxhash jansson

CFLAGS_ALL = -std=gnu17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra $(WERROR) $(OPT) -pthread -fno-strict-aliasing \
             $(shell pkg-config --cflags $(PACKAGES)) $(CFLAGS)
LIBS_CORE  = $(shell pkg-config --libs libarchive inih libxxhash)
LIBS_JSON  = $(shell pkg-config --libs jansson) -lm
LIBS_TEST  = $(shell pkg-config --libs nettle)
LIBS_FUSE  = $(shell pkg-config --libs fuse3)

CORE  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/*.c))
MEASURE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard measure/*.c))
FS    := $(patsubst %.c,$(BUILD)/%.o,$(wildcard fs/*.c))
FS_LIB := $(filter-out $(BUILD)/fs/main.o,$(FS))
TOP   := $(patsubst %.c,$(BUILD)/%.o,$(wildcard top/*.c))
TOOLS := $(patsubst tools/%.c,$(BUILD)/%,$(wildcard tools/*.c))
UNITS := $(wildcard tests/unit/test_*.c) tests/unit/shard.c
SLOWFS = $(BUILD)/tests/slowfs
SOURCES := $(wildcard core/*.[ch] fs/*.[ch] measure/*.[ch] top/*.[ch] tools/*.[ch] tests/unit/*.[ch] tests/mount/*.[ch] bench/*.[ch])

ifneq ($(V),1)
  Q := @
  say = @printf '  %-7s %s\n' $(1) $(2)
endif

.PHONY: all help deps demo test unit mount-test san check lint format bench install uninstall clean
all: $(BUILD)/shufflefs $(TOOLS)

help:
	@echo 'make            build everything into $(BUILD)/'
	@echo 'make demo       install what is missing, build, mount a small real data set, read it, unmount'
	@echo 'make test       install what is missing, build, run all tests (unit and mount; plain, ASan+UBSan, TSan)'
	@echo 'make check      the plain unit and mount tests alone'
	@echo 'make san        the sanitizer builds'"'"' tests alone'
	@echo 'make lint       warnings as errors, clang-format, clang-tidy, cppcheck'
	@echo 'make bench      side by side with ext4, squashfuse_ll and ratarmount; build/bench.md (PHOTOS=DIR, BENCH_ARGS=...)'
	@echo 'make install    to $$(DESTDIR)$(PREFIX)'

$(BUILD)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(BUILD)/shufflefs: $(FS) $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON)

$(BUILD)/shufflefs-%: $(BUILD)/tools/shufflefs-%.o $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE) $(LIBS_JSON)

$(BUILD)/shufflefs-top: $(TOP)

$(BUILD)/shufflefs-bench: $(BUILD)/tools/shufflefs-bench.o $(MEASURE) $(CORE)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_CORE) $(LIBS_JSON) -lm

# The unit tests twice: under Criterion, and in the plain runner that sanitizers and valgrind can see into.
UNIT_ROOMS := $(CORE) $(FS_LIB) $(MEASURE) $(TOP)
$(BUILD)/unit-criterion: $(patsubst %.c,$(BUILD)/%.o,$(UNITS)) $(UNIT_ROOMS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON) $(LIBS_TEST) -lm $(shell pkg-config --libs criterion)

$(BUILD)/plain/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -DPLAIN_RUNNER -MMD -MP -c -o $@ $<

$(BUILD)/unit-plain: $(patsubst %.c,$(BUILD)/plain/%.o,$(UNITS) tests/unit/runner.c) $(UNIT_ROOMS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE) $(LIBS_CORE) $(LIBS_JSON) $(LIBS_TEST) -lm

# Slow and failing storage, for the mount tests and the benchmark.
$(BUILD)/tests/slowfs: $(BUILD)/tests/mount/slowfs.o
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_FUSE)

ASAN := BUILD=build/asan OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'
TSAN := BUILD=build/tsan OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=thread'

deps:
	@scripts/install-deps build test

demo:
	@scripts/install-deps build demo
	$(Q)$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

check: all $(BUILD)/unit-criterion $(BUILD)/unit-plain $(SLOWFS)
	@tests/run --build $(BUILD)

san:
	$(Q)$(MAKE) --no-print-directory $(ASAN) all build/asan/unit-plain build/asan/tests/slowfs
	$(Q)$(MAKE) --no-print-directory $(TSAN) all build/tsan/unit-plain build/tsan/tests/slowfs
	@tests/run --asan build/asan --tsan build/tsan

test:
	@scripts/install-deps build test
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/unit-criterion $(BUILD)/unit-plain $(SLOWFS)
	$(Q)$(MAKE) --no-print-directory $(ASAN) all build/asan/unit-plain build/asan/tests/slowfs
	$(Q)$(MAKE) --no-print-directory $(TSAN) all build/tsan/unit-plain build/tsan/tests/slowfs
	@tests/run --build $(BUILD) --asan build/asan --tsan build/tsan

lint:
	@scripts/install-deps build lint
	$(Q)$(MAKE) --no-print-directory BUILD=build/lint WERROR=-Werror all build/lint/tests/slowfs
	@scripts/lint $(SOURCES)

format:
	clang-format -i $(SOURCES)

bench: all $(SLOWFS)
	@bench/run --binary-dir $(BUILD) $(if $(PHOTOS),--photos $(PHOTOS)) $(BENCH_ARGS)

install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(DOCDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(BASHCOMPDIR)
	install -m 755 $(BUILD)/shufflefs $(TOOLS) $(DESTDIR)$(BINDIR)
	install -m 644 man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 README.md LICENSE etc/shufflefs.conf $(DESTDIR)$(DOCDIR)
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

-include $(shell find $(BUILD) -name '*.d' -not -path '$(BUILD)/asan/*' -not -path '$(BUILD)/tsan/*' -not -path '$(BUILD)/lint/*' 2>/dev/null)
.SECONDARY:
