# SPDX-License-Identifier: MIT OR Apache-2.0
# The benchmarks; part of ../Makefile.

BENCH := build/bench
BENCH_CFLAGS := -std=gnu11 -O2 -g $(WARNINGS)
BENCH_HEADERS := $(wildcard bench/*.h include/rdma/*.h)
# Libraries are found next to what needs them, or in build/.
BENCH_RPATH := -Wl,-rpath,'$$ORIGIN':'$$ORIGIN/..'
OURS := -Iinclude -Lbuild -lrdma_verbs

# --- loops over the helpers, for each way to call them -----------------------------------

BENCH_LOOP = $(CC) $(BENCH_CFLAGS) -fPIC -shared -Wl,-z,lazy $(BENCH_RPATH) -o $@ $<

$(BENCH)/libprovider.so: bench/provider.c bench/provider.h
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -fPIC -shared $< -o $@ -Wl,-soname,$(@F)

$(BENCH)/libshim.so: bench/shim.c c-tests/lib/inlines.h
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -fPIC -shared $< -o $@ -Wl,-soname,$(@F) -libverbs

$(BENCH)/libchecked.so: bench/checked.c
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -fPIC -shared $< -o $@ -Wl,-soname,$(@F) -libverbs

$(BENCH)/inline.so: bench/loops.c $(BENCH_HEADERS)
	@mkdir -p $(@D)
	$(BENCH_LOOP) -libverbs

$(BENCH)/shim.so: bench/loops.c $(BENCH_HEADERS) $(BENCH)/libshim.so
	$(BENCH_LOOP) -Iinclude -L$(BENCH) -lshim

$(BENCH)/checked.so: bench/loops.c $(BENCH_HEADERS) $(BENCH)/libchecked.so
	$(BENCH_LOOP) -Iinclude -L$(BENCH) -lchecked

$(BENCH)/plt.so: bench/loops.c $(BENCH_HEADERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(BENCH_LOOP) $(OURS)

$(BENCH)/noplt.so: bench/loops.c $(BENCH_HEADERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(BENCH_LOOP) -fno-plt $(OURS)

$(BENCH)/static.so: bench/loops.c $(BENCH_HEADERS) build/librdma_verbs.a
	@mkdir -p $(@D)
	$(BENCH_LOOP) -Iinclude -Wl,-Bsymbolic -Wl,--exclude-libs,ALL build/librdma_verbs.a -libverbs

# Needs LIBCLANG_PATH, see scripts/old-libclang.
$(BENCH)/rdma-sys.so: bench/loops.c bench/rdma_sys/src/lib.rs $(BENCH_HEADERS)
	$(CARGO) build --release --locked --package bench-rdma-sys
	@mkdir -p $(@D)
	cp $(RELEASE)/libbench_rdma_sys.so $(@D)/
	$(BENCH_LOOP) -Iinclude -L$(BENCH) -lbench_rdma_sys

$(BENCH)/family.so: bench/loops_ext.c $(BENCH_HEADERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(BENCH_LOOP) $(OURS)

$(BENCH)/extension.so: bench/loops_ext.c $(BENCH_HEADERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(BENCH_LOOP) -DEXTENSIONS $(OURS)

# --- programs ------------------------------------------------------------------------------

# The provider comes before libibverbs, which it replaces in part.
$(BENCH)/calls: bench/calls.c $(BENCH_HEADERS) $(BENCH)/libprovider.so
	$(CC) $(BENCH_CFLAGS) $< -o $@ $(BENCH_RPATH) -Wl,--no-as-needed -L$(BENCH) -lprovider \
		-libverbs -ldl -lpthread

$(BENCH)/calls-go: bench/calls.go $(BENCH)/libprovider.so $(LIBRARY)
	CGO_CFLAGS='-O2 -I$(CURDIR)/include -I$(CURDIR)/bench' \
	CGO_LDFLAGS='-L$(CURDIR)/$(BENCH) -lprovider -L$(CURDIR)/build -lrdma_verbs -Wl,-rpath,$(CURDIR)/$(BENCH):$(CURDIR)/build' \
		GOCACHE=$(CURDIR)/$(BENCH)/go-cache GO111MODULE=off CGO_ENABLED=1 go build -o $@ $<

$(BENCH)/stack: bench/stack.c bench/stack_ways.c $(BENCH_HEADERS) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -c bench/stack_ways.c -o $@_upstream.o
	$(CC) $(BENCH_CFLAGS) -DOURS -Iinclude -c bench/stack_ways.c -o $@_ours.o
	$(CC) $(BENCH_CFLAGS) -Iinclude $< $@_upstream.o $@_ours.o -o $@ $(BENCH_RPATH) \
		-Lbuild -lrdma_verbs $(VERBS_LIBS) -lpthread

$(BENCH)/footprint: bench/footprint.c bench/statistics.h
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) $< -o $@ -ldl

# What c-tests/cost/check-instructions and c-tests/cost/check-batch count.
tests: $(BENCH)/calls $(BENCH)/plt.so $(BENCH)/extension.so $(BENCH)/stack

BENCH_PROGRAMS := calls stack footprint
BENCH_PROGRAMS += inline.so shim.so checked.so plt.so noplt.so static.so family.so extension.so

.PHONY: bench
bench:
	@scripts/need --quiet build vm bench
	@$(MAKE) --no-print-directory --silent all $(BENCH_PROGRAMS:%=$(BENCH)/%) $(PRELOAD_TESTS)
	@if LIBCLANG_PATH=$$(scripts/old-libclang); then export LIBCLANG_PATH; \
		$(MAKE) --no-print-directory --silent $(BENCH)/rdma-sys.so; \
	else echo 'bench: no libclang from 6 to 15: without rdma-sys' >&2; fi
	@if command -v go >/dev/null; then $(MAKE) --no-print-directory --silent $(BENCH)/calls-go; \
	else echo 'bench: no go: without cgo' >&2; fi
	@bench/run
