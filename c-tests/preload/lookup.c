// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: lookup [by-version]
 *
 * Not linked with libibverbs: loads it with local scope, and looks up its functions by
 * name, or by name and version.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *library;
static int by_version;

static void *find(const char *name)
{
	void *found = by_version ? dlvsym(library, name, "IBVERBS_1.1") : dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(1);
	}
	return found;
}

int main(int argc, char **argv)
{
	struct ibv_device **(*get_list)(int *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	int (*dealloc_pd)(struct ibv_pd *);
	int (*close_device)(struct ibv_context *);
	struct ibv_context *context;
	struct ibv_pd *pd;

	(void)argv;
	by_version = argc > 1;
	library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return 1;
	get_list = find("ibv_get_device_list");
	open_device = find("ibv_open_device");
	alloc_pd = find("ibv_alloc_pd");
	dealloc_pd = find("ibv_dealloc_pd");
	close_device = find("ibv_close_device");
	context = open_device(get_list(NULL)[0]);
	pd = context ? alloc_pd(context) : NULL;
	if (!pd || dealloc_pd(pd) || close_device(context))
		return 1;
	/* What depends on the caller is looked up from here. */
	printf("next %d, default %d\n", dlsym(RTLD_NEXT, "getpid") != NULL,
	       dlsym(RTLD_DEFAULT, "getpid") == dlsym(RTLD_NEXT, "getpid"));
	return 0;
}
