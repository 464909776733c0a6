/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loads the library as a plug-in would, and prints the names that it finds. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = dlopen("librdma_verbs.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	for (int i = 1; i < argc; i++) {
		if (!dlsym(library, argv[i])) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		puts(argv[i]);
	}
	return dlclose(library);
}
