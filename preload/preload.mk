# SPDX-License-Identifier: MIT OR Apache-2.0
# The preload library and the command that runs programs under it; part of ../Makefile.

PRELOAD         := build/librdma_verbs_preload.so
PRELOAD_COMMAND := build/rdma-verbs
PRELOAD_ARCHIVE := $(RELEASE)/librdma_verbs_preload.a

.PHONY: preload
preload: $(PRELOAD) $(PRELOAD_COMMAND)

.PHONY: preload-cargo
preload-cargo:
	@scripts/need --quiet build
	$(CARGO) build --release --locked --package rdma-verbs-preload --package rdma-verbs-command

$(PRELOAD_ARCHIVE) $(RELEASE)/rdma-verbs: preload-cargo ;

# Its own names come first in each process: nothing may be looked up elsewhere, and
# no symbol of Rust's may be seen. All of the archive is taken in, since nothing refers to
# the hooks.
$(PRELOAD): $(PRELOAD_ARCHIVE) preload/preload.map preload/preload.mk
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive \
		-Wl,-soname,$(@F) -Wl,--version-script=preload/preload.map \
		-Wl,-Bsymbolic-functions -Wl,--gc-sections -Wl,-z,defs,-z,relro,-z,now \
		-Wl,--as-needed -lgcc_s -ldl -lpthread -lm -lc

$(PRELOAD_COMMAND): $(RELEASE)/rdma-verbs
	@mkdir -p $(@D)
	@rm -f $@
	cp $< $@

all: preload

# --- tests ----------------------------------------------------------------------------

PRELOAD_TESTS := $(addprefix build/c-tests/preload/,faults correct behave lookup loader early unversioned cost direct unusual ends stack polls \
	lasts) $(addprefix build/c-tests/preload/fake/,plugin-system.so plugin-wheel.so)

tests: preload $(PRELOAD_TESTS)

build/c-tests/preload/faults build/c-tests/preload/correct build/c-tests/preload/behave: build/c-tests/preload/%: \
		c-tests/preload/%.c c-tests/preload/loop.c c-tests/preload/loop.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O1 -g $(WARNINGS) $(filter %.c,$^) -o $@ -libverbs -lpthread

build/c-tests/preload/fake/libearly.so: c-tests/preload/early.c build/c-tests/preload/fake/libibverbs.so.1
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) -DLIBRARY -fPIC -shared $^ -o $@ -Wl,-rpath,'$$ORIGIN'

build/c-tests/preload/early: c-tests/preload/early.c build/c-tests/preload/fake/libearly.so \
		build/c-tests/preload/fake/libibverbs.so.1
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) $^ -o $@ -Wl,-rpath,'$$ORIGIN/fake'

# References without a version.
build/c-tests/preload/fake/unversioned/libibverbs.so.1: c-tests/preload/fake_ibverbs.c c-tests/preload/fake.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) -fPIC -shared $< -o $@ -Wl,-soname,$(@F)

build/c-tests/preload/unversioned: c-tests/preload/early.c build/c-tests/preload/fake/libearly.so \
		build/c-tests/preload/fake/unversioned/libibverbs.so.1
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) $^ -o $@ -Wl,-z,lazy -Wl,-rpath,'$$ORIGIN/fake' \
		-Wl,--unresolved-symbols=ignore-in-shared-libs

# Not linked with libibverbs.
build/c-tests/preload/lookup build/c-tests/preload/loader: build/c-tests/preload/%: c-tests/preload/%.c \
		c-tests/preload/plugin.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) $< -o $@ -ldl

# The second is as Python wheels bring it: a copy under a name of its own.
build/c-tests/preload/fake/libibverbs.so.1 build/c-tests/preload/fake/libibverbs-1a2b3c4d.so.1: \
		c-tests/preload/fake_ibverbs.c c-tests/preload/fake.h c-tests/preload/fake_ibverbs.map
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) -fPIC -shared $< -o $@ \
		-Wl,-soname,$(@F) -Wl,--version-script=c-tests/preload/fake_ibverbs.map

build/c-tests/preload/fake/plugin-system.so: build/c-tests/preload/fake/libibverbs.so.1
build/c-tests/preload/fake/plugin-wheel.so: build/c-tests/preload/fake/libibverbs-1a2b3c4d.so.1
build/c-tests/preload/fake/plugin-%.so: c-tests/preload/plugin.c c-tests/preload/plugin.h
	$(CC) -std=gnu11 -O2 $(WARNINGS) -fPIC -shared $(filter-out %.h,$^) -o $@ -Wl,-z,relro,-z,now -Wl,-rpath,'$$ORIGIN'

build/c-tests/preload/fake/libmlx5.so.1: c-tests/preload/fake_mlx5.c c-tests/preload/fake_mlx5.h \
		c-tests/preload/fake_mlx5.map
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) -fPIC -shared $< -o $@ \
		-Wl,-soname,$(@F) -Wl,--version-script=c-tests/preload/fake_mlx5.map

build/c-tests/preload/cost: c-tests/preload/cost.c build/c-tests/preload/fake/libibverbs.so.1
	$(CC) -std=gnu11 -O2 -g $(WARNINGS) $^ -o $@

build/c-tests/preload/unusual: c-tests/preload/unusual.c c-tests/preload/objects.c build/c-tests/preload/fake/libibverbs.so.1 \
		build/c-tests/preload/fake/libmlx5.so.1
	$(CC) -std=gnu11 -O1 -g $(WARNINGS) $^ -o $@ -lpthread -Wl,-rpath,'$$ORIGIN/fake'

FAKE_PROGRAMS := $(addprefix build/c-tests/preload/,ends polls lasts)
$(FAKE_PROGRAMS): c-tests/preload/objects.c
$(FAKE_PROGRAMS) build/c-tests/preload/stack: build/c-tests/preload/%: c-tests/preload/%.c \
		build/c-tests/preload/fake/libibverbs.so.1
	$(CC) -std=gnu11 -O1 -g $(WARNINGS) $^ -o $@ -lpthread -Wl,-z,now -Wl,-rpath,'$$ORIGIN/fake'

build/c-tests/preload/direct: c-tests/preload/direct.c build/c-tests/preload/fake/libmlx5.so.1
	$(CC) -std=gnu11 $(CFLAGS) $(WARNINGS) $^ -o $@ -Wl,-rpath,'$$ORIGIN/fake'

# It installs all there is.
build/c-tests/device/interop: | $(PRELOAD) $(PRELOAD_COMMAND)

# --- installation ---------------------------------------------------------------------

BIN_TO := '$(DESTDIR)$(BINDIR)'

.PHONY: install-preload
install: install-preload
install-preload:
	@test -e $(PRELOAD) || { echo 'make install: nothing is built yet; run make first' >&2; exit 1; }
	$(INSTALL) -d $(LIB_TO)/rdma_verbs $(BIN_TO) $(MAN_TO)/man1
	$(INSTALL) -m 755 $(PRELOAD) $(LIB_TO)/rdma_verbs/
	$(INSTALL) -m 755 $(PRELOAD_COMMAND) $(BIN_TO)/
	$(INSTALL) -m 644 man/rdma-verbs.1 $(MAN_TO)/man1/

.PHONY: uninstall-preload
uninstall: uninstall-preload
uninstall-preload:
	rm -f $(LIB_TO)/rdma_verbs/$(notdir $(PRELOAD)) $(BIN_TO)/$(notdir $(PRELOAD_COMMAND)) \
		$(MAN_TO)/man1/rdma-verbs.1
	rmdir $(LIB_TO)/rdma_verbs
