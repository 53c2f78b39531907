# libshuffleload: shared and static library, pkg-config file, examples. Included by ../Makefile.

LOADER_VERSION := 0.1.0
SONAME   := libshuffleload.so.0
LIBDIR   ?= $(PREFIX)/lib
INCDIR   ?= $(PREFIX)/include
LIBS_LOADER = $(shell pkg-config --libs libarchive) $(LIBS_IMAGE)
LIBRARY  := $(BUILD)/$(SONAME) $(BUILD)/libshuffleload.so $(BUILD)/libshuffleload.a $(BUILD)/shuffleload.pc
EXAMPLES := $(patsubst loader/examples/%.c,$(BUILD)/%,$(wildcard loader/examples/*.c))

.PHONY: library examples install-library uninstall-library
library: $(LIBRARY)
all: library

# Nothing but sl_ leaves either library: by the version script, and by hiding the rest in one object.
$(BUILD)/$(SONAME): $(LOADER) loader/shuffleload.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=loader/shuffleload.map \
	    -Wl,-z,relro,-z,now -o $@ $(LOADER) $(LIBS_LOADER)

$(BUILD)/libshuffleload.so: $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

$(BUILD)/libshuffleload.a: $(LOADER)
	$(call say,AR,$@)
	$(Q)$(LD) -r -o $(BUILD)/libshuffleload.o $(LOADER)
	$(Q)objcopy --wildcard --keep-global-symbol='sl_*' $(BUILD)/libshuffleload.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(BUILD)/libshuffleload.o

# Anew each time: it holds PREFIX, which may be another one at the installation.
.PHONY: $(BUILD)/shuffleload.pc
$(BUILD)/shuffleload.pc: loader/shuffleload.pc.in
	$(Q)mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCDIR@|$(INCDIR)|; s|@VERSION@|$(LOADER_VERSION)|' \
	    $< > $@

# As a user builds them: the header, the library, nothing else of ours.
examples: $(EXAMPLES)
$(EXAMPLES): $(BUILD)/%: loader/examples/%.c loader/shuffleload.h $(BUILD)/libshuffleload.so
	$(call say,LD,$@)
	$(Q)$(CC) -std=c17 -Wall -Wextra $(WERROR) $(OPT) -Iloader -o $@ $< -L$(BUILD) -lshuffleload -Wl,-rpath,'$$ORIGIN'

install: install-library
install-library: library
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCDIR) $(DESTDIR)$(MANDIR)/man3
	install -m 644 $(BUILD)/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SONAME).$(LOADER_VERSION)
	ln -sf $(SONAME).$(LOADER_VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libshuffleload.so
	install -m 644 $(BUILD)/libshuffleload.a $(DESTDIR)$(LIBDIR)
	install -m 644 $(BUILD)/shuffleload.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 loader/shuffleload.h $(DESTDIR)$(INCDIR)
	install -m 644 man/*.3 $(DESTDIR)$(MANDIR)/man3

uninstall: uninstall-library
uninstall-library:
	rm -f $(DESTDIR)$(LIBDIR)/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SONAME).$(LOADER_VERSION) $(DESTDIR)$(LIBDIR)/libshuffleload.so
	rm -f $(DESTDIR)$(LIBDIR)/libshuffleload.a $(DESTDIR)$(LIBDIR)/pkgconfig/shuffleload.pc $(DESTDIR)$(INCDIR)/shuffleload.h
	rm -f $(patsubst man/%,$(DESTDIR)$(MANDIR)/man3/%,$(wildcard man/*.3))

# Programs of the tests.
LOADER_TESTS := $(patsubst tests/loader/%.c,$(BUILD)/%,$(wildcard tests/loader/load-*.c))
$(BUILD)/load-%: $(BUILD)/tests/loader/load-%.o $(LOADER)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_LOADER)
all: $(LOADER_TESTS)
