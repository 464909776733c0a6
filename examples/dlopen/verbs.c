/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "verbs.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

struct entry {
	const char *name;
	size_t offset;		/* of the pointer, in the table */
};

#define ENTRY(name) { #name, offsetof(struct verbs, name) },

static const struct entry verbs_entries[] = { VERBS_FUNCTIONS(ENTRY) { 0 } };
static const struct entry cm_entries[] = { CM_FUNCTIONS(ENTRY) { 0 } };

/*
 * RTLD_NOW: missing symbols are found here, not at the first call. RTLD_LOCAL: programs
 * may have functions with the same names. Never unloaded: what the libraries opened may
 * be in use for the process's lifetime.
 */
static const char *load(const char *soname, const struct entry *entry, struct verbs *verbs)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	for (; entry->name; entry++) {
		void *symbol = dlsym(library, entry->name);

		if (!symbol)
			return dlerror();
		/* ISO C has no cast from a data pointer to a function pointer. */
		memcpy((char *)verbs + entry->offset, &symbol, sizeof(symbol));
	}
	return NULL;
}

const char *verbs_load(struct verbs *verbs)
{
	const char *missing = load("librdma_verbs.so.1", verbs_entries, verbs);

	return missing ? missing : load("librdmacm.so.1", cm_entries, verbs);
}
