# SPDX-License-Identifier: MIT OR Apache-2.0
#
#   make            the library, in build/
#   make demo       an RDMA read between two processes, verified (SIZE=1M, PAIR=1)
#   make check      the tests (SUITES=quick or SUITES="unit fake" for some)
#   make soak       faults at random for HOURS=1 (SEED=N for the same ones again)
#   make bench      the benchmarks
#   make install    PREFIX= LIBDIR= INCLUDEDIR= MANDIR= BINDIR= DESTDIR=
#   make uninstall  the same variables
#   make deb        Debian packages, in build/deb
#   make generated  renews the generated files in the source tree

VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SONAME  := librdma_verbs.so.1

PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
BINDIR     ?= $(PREFIX)/bin
DESTDIR    ?=

CC      ?= cc
OBJCOPY ?= objcopy
INSTALL ?= install
CARGO   ?= cargo
CFLAGS  ?= -O2 -g
SIZE    ?= 1M
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR

# The export list is the one truth on what the library exports.
EXPORTS := $(shell sed -n 's/^    \(rdmax*_[a-z_]*\);$$/\1/p' src/rdma_verbs.map)
# Where cargo leaves what it builds.
RELEASE := $(CARGO_TARGET_DIR)$(CARGO_BUILD_TARGET:%=/%)/release
ARCHIVE := $(RELEASE)/librdma_verbs.a
SHARED  := build/librdma_verbs.so.$(VERSION)
# What a program links with, and what it loads.
LIBRARY := build/librdma_verbs.so build/$(SONAME)
VERBS_LIBS := -lrdmacm -libverbs

.PHONY: all
all: $(LIBRARY) build/librdma_verbs.a

# cargo knows what is up to date.
.PHONY: cargo
cargo:
	@scripts/need --quiet build
	$(CARGO) build --release --locked --package rdma-verbs

$(ARCHIVE): cargo ;

# cargo's archive holds all of Rust's core with its global symbols. What the helpers
# need becomes one object, whose only global symbols are the helpers.
build/rdma_verbs.o: $(ARCHIVE) src/rdma_verbs.map Makefile
	@mkdir -p $(@D)
	$(CC) -r -nostdlib -o $@.tmp $(EXPORTS:%=-Wl,-u,%) -Wl,--gc-sections $(ARCHIVE)
	$(OBJCOPY) $(EXPORTS:%=--keep-global-symbol=%) $@.tmp $@
	@rm -f $@.tmp

# Weak: a program that has a function of the same name links all the same.
build/librdma_verbs.a: build/rdma_verbs.o
	@rm -f $@
	$(OBJCOPY) $(EXPORTS:%=--weaken-symbol=%) $< build/rdma_verbs_weak.o
	$(AR) -rcs $@ build/rdma_verbs_weak.o

# cargo cannot pass a version script that every linker takes; the C compiler can. Small,
# and quickly loaded: no start files, which are for C++, and no padding between code and
# constants.
$(SHARED): build/rdma_verbs.o src/rdma_verbs.map
	$(CC) $(LDFLAGS) -shared -nostartfiles -o $@ $< -Wl,-soname,$(SONAME) \
		-Wl,--version-script=src/rdma_verbs.map -Wl,-Bsymbolic-functions \
		-Wl,-z,defs,-z,now,-z,relro,-z,noseparate-code -Wl,--as-needed -libverbs

$(LIBRARY): $(SHARED)
	ln -sf $(notdir $<) $@

# --- examples and tests ---------------------------------------------------------------

WARNINGS := -Wall -Wextra -Werror
TEST_CFLAGS := -std=gnu11 $(CFLAGS) $(WARNINGS) -Iinclude
# The programs find the library that was built here, wherever they are started. They load
# it, so that they need not be linked anew when it changes.
TEST_LIBS := -Lbuild -Wl,-rpath,$(CURDIR)/build -lrdma_verbs $(VERBS_LIBS)

EXAMPLES := $(patsubst examples/%.c,build/examples/%,$(wildcard examples/*.c))

build/examples/%: examples/%.c $(wildcard examples/*.h include/rdma/*.h) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $< -o $@ $(TEST_LIBS)

# The examples with a fault, which examples/test has to notice.
CHANGED := $(patsubst c-tests/%.c,build/c-tests/%,$(wildcard c-tests/examples/*.c))

build/c-tests/examples/%: c-tests/examples/%.c $(wildcard examples/*.[ch] include/rdma/*.h) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) -Iexamples $< -o $@ $(TEST_LIBS)

FAKE_TESTS   := $(patsubst c-tests/%.c,build/c-tests/%,$(wildcard c-tests/unit/test_*.c))
DEVICE_TESTS := $(patsubst c-tests/%.c,build/c-tests/%,$(wildcard c-tests/device/test_*.c))
TEST_HEADERS := $(wildcard c-tests/*/*.h include/rdma/*.h)

build/c-tests/unit/test_%: c-tests/unit/test_%.c c-tests/fake/fake.c $(TEST_HEADERS) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $< c-tests/fake/fake.c -o $@ $(TEST_LIBS) -lcmocka

# Brings its own provider.
build/c-tests/unit/test_threads: c-tests/unit/test_threads.c $(TEST_HEADERS) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $< -o $@ $(TEST_LIBS) -lcmocka -lpthread

# The extension helpers, on a provider whose queues work.
build/c-tests/unit/test_ext_%: c-tests/unit/test_ext_%.c c-tests/fake/ext_fake.c $(TEST_HEADERS) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $< c-tests/fake/ext_fake.c -o $@ $(TEST_LIBS) -lcmocka -lpthread

build/c-tests/device/test_%: c-tests/device/test_%.c c-tests/device/device.c $(TEST_HEADERS) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $< c-tests/device/device.c -o $@ $(TEST_LIBS) -lcmocka -lpthread

# The load whose wire and peers fail.
FAULT_PROGRAMS := build/c-tests/faults/server build/c-tests/faults/client

$(FAULT_PROGRAMS): build/c-tests/faults/%: c-tests/faults/%.c c-tests/faults/load.h $(TEST_HEADERS) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $< -o $@ $(TEST_LIBS) -lpthread

# librdmacm's inline functions, with and without assert: compiled with its own header.
build/c-tests/differential/oracle_with_assert.o: DEFINES := -DORACLE=oracle_with_assert
build/c-tests/differential/oracle_without_assert.o: DEFINES := -DORACLE=oracle_without_assert -DNDEBUG
build/c-tests/differential/oracle_%.o: c-tests/differential/oracle.c $(TEST_HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) $(DEFINES) -c $< -o $@

ORACLES := build/c-tests/differential/oracle_with_assert.o build/c-tests/differential/oracle_without_assert.o
DIFFERENTIAL := $(filter-out %/oracle.c,$(wildcard c-tests/differential/*.c)) c-tests/fake/fake.c

build/c-tests/differential/differential: $(DIFFERENTIAL) $(ORACLES) $(TEST_HEADERS) | $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $(DIFFERENTIAL) $(ORACLES) -o $@ $(TEST_LIBS)

# An unmodified program for librdmacm's header, built as INSTALL.md says, from an
# installed tree.
build/c-tests/device/interop: c-tests/device/interop.c $(LIBRARY) build/librdma_verbs.a
	@mkdir -p $(@D)
	@rm -rf build/installed
	$(MAKE) --no-print-directory --silent install DESTDIR= PREFIX=$(CURDIR)/build/installed \
		LIBDIR=$(CURDIR)/build/installed/lib INCLUDEDIR=$(CURDIR)/build/installed/include \
		MANDIR=$(CURDIR)/build/installed/man BINDIR=$(CURDIR)/build/installed/bin
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) $< -o $@ \
		$$(PKG_CONFIG_PATH=build/installed/lib/pkgconfig pkg-config --cflags --libs librdma_verbs) \
		-Wl,-rpath,$(CURDIR)/build/installed/lib

SUITES ?= all

.PHONY: check
check:
	@scripts/need --quiet build check vm
	@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) all $(EXAMPLES) tests
	@scripts/check $(SUITES)

.PHONY: tests
tests: $(CHANGED) $(FAULT_PROGRAMS) $(FAKE_TESTS) $(DEVICE_TESTS) build/c-tests/differential/differential build/c-tests/device/interop

HOURS ?= 1
.PHONY: soak
soak:
	@scripts/need --quiet build check vm
	@$(MAKE) --no-print-directory --silent $(FAULT_PROGRAMS)
	@vm/run --pair --memory 1024 --timeout $$(($(HOURS) * 3600 + 600)) -- \
		c-tests/faults/soak $$(($(HOURS) * 3600)) $(SEED)

.PHONY: demo
demo:
	@scripts/need --quiet demo
	@$(MAKE) --no-print-directory --silent $(LIBRARY) $(EXAMPLES)
	@examples/demo $(if $(PAIR),--pair) $(SIZE)

# --- installation: copies what `make` has built --------------------------------------

MAN3 := $(wildcard man/*.3)
MAN7 := $(wildcard man/*.7)

# As words of the shell.
LIB_TO     := '$(DESTDIR)$(LIBDIR)'
INCLUDE_TO := '$(DESTDIR)$(INCLUDEDIR)/rdma_verbs'
MAN_TO     := '$(DESTDIR)$(MANDIR)'

# A directory below PREFIX, as the .pc file names it: so that the tree can be moved.
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))

# These stand in the .pc file, which has no quoting that all its readers agree on.
define plain_directories
@case '$(PREFIX)$(LIBDIR)$(INCLUDEDIR)$(MANDIR)$(BINDIR)' in \
*[!A-Za-z0-9/._+:@%~=,-]*) \
	echo 'make $@: only A-Z a-z 0-9 / . _ + : @ % ~ = , - may be in PREFIX, LIBDIR, INCLUDEDIR, MANDIR, BINDIR' >&2; \
	exit 1 ;; \
esac
endef

.PHONY: install
install:
	$(plain_directories)
	@test -e $(SHARED) || { echo 'make install: nothing is built yet; run make first' >&2; exit 1; }
	$(INSTALL) -d $(LIB_TO)/pkgconfig $(INCLUDE_TO)/rdma $(MAN_TO)/man3 $(MAN_TO)/man7
	$(INSTALL) -m 755 $(SHARED) $(LIB_TO)/
	ln -sf $(notdir $(SHARED)) $(LIB_TO)/$(SONAME)
	ln -sf $(notdir $(SHARED)) $(LIB_TO)/librdma_verbs.so
	$(INSTALL) -m 644 build/librdma_verbs.a $(LIB_TO)/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|' \
		-e 's|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|' \
		-e 's|@VERSION@|$(VERSION)|' \
		pkgconfig/librdma_verbs.pc.in > $(LIB_TO)/pkgconfig/librdma_verbs.pc
	chmod 644 $(LIB_TO)/pkgconfig/librdma_verbs.pc
	$(INSTALL) -m 644 $(wildcard include/rdma/*.h) $(INCLUDE_TO)/rdma/
	for page in $(notdir $(MAN3)); do \
		$(INSTALL) -m 644 man/$$page $(MAN_TO)/man3/$${page}rs || exit; done
	$(INSTALL) -m 644 $(MAN7) $(MAN_TO)/man7/

.PHONY: uninstall
uninstall:
	$(plain_directories)
	cd $(LIB_TO) && rm -f $(notdir $(SHARED)) $(SONAME) librdma_verbs.so librdma_verbs.a \
		pkgconfig/librdma_verbs.pc
	cd $(INCLUDE_TO) && rm -f $(patsubst include/%,%,$(wildcard include/rdma/*.h)) && rmdir rdma
	rmdir $(INCLUDE_TO)
	cd $(MAN_TO) && rm -f $(patsubst man/%,man3/%rs,$(MAN3)) $(patsubst man/%,man7/%,$(MAN7))

include preload/preload.mk
include bench/bench.mk

.PHONY: deb
deb:
	@scripts/need --quiet build deb
	@scripts/deb

.PHONY: generated
generated:
	$(CARGO) run --locked --quiet --package xtask -- generate

.PHONY: clean
clean:
	$(CARGO) clean
	rm -rf build
