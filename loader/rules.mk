# libshuffleload: shared and static library, pkg-config file, examples. Included by ../Makefile.

# The CUDA back end, where CUDA's compiler and its static runtime are found: nvcc in PATH, in CUDA_HOME, in /usr/local/cuda.
# CUDA=0 leaves it out, CUDA=1 fails without. CUDA_ARCHS: processors with code of their own, as far as this nvcc knows them;
# later ones compile the last one's at run time.
CUDA       ?= auto
CUDA_ARCHS ?= 75 80 86 90 100
ifneq ($(CUDA),0)
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard $(addsuffix /bin/nvcc,$(CUDA_HOME) /usr/local/cuda)))
CUDA_ROOT := $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
CUDART    := $(if $(CUDA_ROOT),$(firstword $(wildcard $(addsuffix /libcudart_static.a,$(addprefix $(CUDA_ROOT)/,lib64 lib targets/*/lib lib/*-linux-gnu)))))
endif
ifneq ($(CUDART),)
LIBS_CUDA   := $(CUDART) -ldl -lrt -pthread
CUDA_OBJECT := $(BUILD)/loader/cuda_runtime.o
else ifeq ($(CUDA),1)
$(error CUDA=1: $(if $(NVCC),no libcudart_static.a beside $(NVCC),no nvcc in PATH, CUDA_HOME or /usr/local/cuda))
endif
CUDA_USED = $(filter $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch)),$(CUDA_ARCHS))
CUDA_CODE = $(foreach arch,$(CUDA_USED),-gencode arch=compute_$(arch),code=sm_$(arch)) \
            -gencode arch=compute_$(lastword $(CUDA_USED)),code=compute_$(lastword $(CUDA_USED))
# No C++ library is linked: the static that nvcc's own launch stubs have needs no guard, as nobody calls them.
NVCC_FLAGS = -std=c++17 -O2 -fmad=false --threads 2 -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-fno-exceptions,-fno-rtti,-Wall,-Wextra $(if $(WERROR),-Werror all-warnings)

$(BUILD)/%.o: %.cu
	$(call say,NVCC,$<)
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(NVCC_FLAGS) $(CUDA_CODE) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# What was built with another choice is not up to date.
$(BUILD)/cuda-choice: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_OBJECT) $(CUDART) $(CUDA_ARCHS)' | cmp -s - $@ || echo '$(CUDA_OBJECT) $(CUDART) $(CUDA_ARCHS)' >$@
$(CUDA_OBJECT): $(BUILD)/cuda-choice
.PHONY: FORCE
FORCE:

LOADER_VERSION := 0.1.0
SONAME   := libshuffleload.so.0
LIBDIR   ?= $(PREFIX)/lib
INCDIR   ?= $(PREFIX)/include
LIBS_LOADER = $(shell pkg-config --libs libarchive) $(LIBS_IMAGE)
LIBRARY  := $(BUILD)/$(SONAME) $(BUILD)/libshuffleload.so $(BUILD)/libshuffleload.a $(BUILD)/shuffleload.pc
EXAMPLES := $(patsubst loader/examples/%.c,$(BUILD)/%,$(wildcard loader/examples/*.c))
EXAMPLES_CPP := $(patsubst loader/examples/%.cpp,$(BUILD)/%,$(wildcard loader/examples/*.cpp))
EXAMPLES_CUDA := $(if $(CUDA_OBJECT),$(patsubst loader/examples/%.cu,$(BUILD)/%,$(wildcard loader/examples/*.cu)))

.PHONY: library examples install-library uninstall-library
library: $(LIBRARY)
all: library

# Nothing but sl_ leaves either library: by the version script, and by hiding the rest in one object.
$(BUILD)/$(SONAME): $(LOADER) $(CUDA_OBJECT) $(BUILD)/cuda-choice loader/shuffleload.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=loader/shuffleload.map \
	    -Wl,-z,relro,-z,now -o $@ $(LOADER) $(CUDA_OBJECT) $(LIBS_LOADER) $(LIBS_CUDA)

$(BUILD)/libshuffleload.so: $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

$(BUILD)/libshuffleload.a: $(LOADER) $(CUDA_OBJECT) $(BUILD)/cuda-choice
	$(call say,AR,$@)
	$(Q)$(LD) -r -o $(BUILD)/libshuffleload.o $(LOADER) $(CUDA_OBJECT)
	$(Q)objcopy --wildcard --keep-global-symbol='sl_*' $(BUILD)/libshuffleload.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(BUILD)/libshuffleload.o

# Anew each time: it holds PREFIX, which may be another one at the installation.
.PHONY: $(BUILD)/shuffleload.pc
$(BUILD)/shuffleload.pc: loader/shuffleload.pc.in
	$(Q)mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCDIR@|$(INCDIR)|; s|@VERSION@|$(LOADER_VERSION)|; s|@LIBS_CUDA@|$(LIBS_CUDA)|' \
	    $< > $@

# As a user builds them: the header, the library, nothing else of ours.
examples: $(EXAMPLES) $(EXAMPLES_CPP) $(EXAMPLES_CUDA)
$(EXAMPLES): $(BUILD)/%: loader/examples/%.c loader/shuffleload.h $(BUILD)/libshuffleload.so
	$(call say,LD,$@)
	$(Q)$(CC) -std=c17 -Wall -Wextra $(WERROR) $(OPT) -Iloader -o $@ $< -L$(BUILD) -lshuffleload -Wl,-rpath,'$$ORIGIN'
$(EXAMPLES_CPP): $(BUILD)/%: loader/examples/%.cpp loader/shuffleload.h $(BUILD)/libshuffleload.so
	$(call say,LD,$@)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra $(WERROR) $(OPT) -Iloader -o $@ $< -L$(BUILD) -lshuffleload -Wl,-rpath,'$$ORIGIN'
$(EXAMPLES_CUDA): $(BUILD)/%: loader/examples/%.cu loader/shuffleload.h $(BUILD)/libshuffleload.so
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -std=c++17 -O2 $(CUDA_CODE) -Iloader -o $@ $< -L$(BUILD) -lshuffleload -Xlinker -rpath='$$ORIGIN'

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

# What only a GPU can show: the parts on a GPU, and on the fake one of the unit tests, for the parts' own test.
GPU_CHECK := $(BUILD)/tests/gpu/gpu-check.o $(BUILD)/tests/unit/picture.o $(LOADER)
$(BUILD)/gpu-check-fake: $(GPU_CHECK) $(BUILD)/tests/gpu/consumer_fake.o $(BUILD)/tests/unit/fake_cuda.o $(BUILD)/tests/unit/fake_nvjpeg.o
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_LOADER)
all: $(BUILD)/gpu-check-fake
ifneq ($(CUDA_OBJECT),)
$(BUILD)/gpu-check: $(GPU_CHECK) $(BUILD)/tests/gpu/consumer.o $(CUDA_OBJECT)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS_LOADER) $(LIBS_CUDA)
test-gpu: $(BUILD)/gpu-check
	@tests/gpu/run --program $(BUILD)/gpu-check --out $(BUILD)/gpu.md
else
test-gpu:
	@echo 'test-gpu: no nvcc, or no static CUDA runtime, was found' >&2; exit 1
endif
.PHONY: test-gpu
