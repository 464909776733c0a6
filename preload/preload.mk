# SPDX-License-Identifier: MIT OR Apache-2.0
# The preload library and the command that runs programs under it; part of ../Makefile.

PRELOAD         := build/librdma_verbs_preload.so
PRELOAD_COMMAND := build/rdma-verbs
PRELOAD_ARCHIVE := $(CARGO_TARGET_DIR)/release/librdma_verbs_preload.a
PRELOAD_EXPORTS := $(shell sed -n 's/^    \([a-z0-9_]*\);$$/\1/p' preload/preload.map)

.PHONY: preload
preload: $(PRELOAD) $(PRELOAD_COMMAND)

.PHONY: preload-cargo
preload-cargo:
	@scripts/need --quiet build
	$(CARGO) build --release --locked --package rdma-verbs-preload --package rdma-verbs-command

$(PRELOAD_ARCHIVE) $(CARGO_TARGET_DIR)/release/rdma-verbs: preload-cargo ;

# Its own names come first in each process: nothing may be looked up elsewhere, and
# no symbol of Rust's may be seen.
$(PRELOAD): $(PRELOAD_ARCHIVE) preload/preload.map preload/preload.mk
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -shared -o $@ $(PRELOAD_EXPORTS:%=-Wl,-u,%) $< \
		-Wl,-soname,$(@F) -Wl,--version-script=preload/preload.map \
		-Wl,-Bsymbolic-functions -Wl,--gc-sections -Wl,-z,defs,-z,relro \
		-Wl,--as-needed -lgcc_s -ldl -lpthread -lm -lc

$(PRELOAD_COMMAND): $(CARGO_TARGET_DIR)/release/rdma-verbs
	@mkdir -p $(@D)
	cp $< $@
