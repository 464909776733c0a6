// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: loader local|deep|namespace PLUGIN...
 *        loader found LIBRARY...
 *        loader again PLUGIN
 *        loader probe LIBRARY
 *
 * Is not linked with libibverbs, but loads plugins that are, each with its own copy, and uses
 * them in turn. "found" looks the functions of libibverbs up by itself. "again" loads and unloads one several times. "probe" asks for functions in
 * all ways there are, and prints which are found.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4

int mlx5dv_init_obj(void *object, uint64_t kind) __attribute__((weak));

static void require(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s: %s\n", what, dlerror());
		exit(1);
	}
}

static void *load(const char *how, const char *path)
{
	int flags = RTLD_NOW | RTLD_LOCAL | (strcmp(how, "deep") ? 0 : RTLD_DEEPBIND);
	void *library = strcmp(how, "namespace") ? dlopen(path, flags) :
						   dlmopen(LM_ID_NEWLM, path, RTLD_NOW);

	require(library != NULL, path);
	return library;
}

static const struct plugin *plugin_of(void *library)
{
	const struct plugin *plugin = dlsym(library, "plugin");

	require(plugin != NULL, "plugin");
	return plugin;
}

/* The functions of one copy, as a plugin has them. */
struct found {
	struct ibv_device **(*get_device_list)(int *count);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*close_device)(struct ibv_context *context);
};

static struct found find_in(void *library)
{
	struct found found;

	*(void **)&found.get_device_list = dlsym(library, "ibv_get_device_list");
	*(void **)&found.open_device = dlsym(library, "ibv_open_device");
	*(void **)&found.alloc_pd = dlvsym(library, "ibv_alloc_pd", "IBVERBS_1.1");
	*(void **)&found.dealloc_pd = dlsym(library, "ibv_dealloc_pd");
	*(void **)&found.close_device = dlsym(library, "ibv_close_device");
	require(found.get_device_list && found.open_device && found.alloc_pd && found.dealloc_pd &&
		found.close_device, "functions");
	return found;
}

static void use_found(char **paths, int count)
{
	struct found found[MOST];
	struct ibv_context *contexts[MOST];
	struct ibv_pd *pds[MOST];
	int i;

	for (i = 0; i < count; i++)
		found[i] = find_in(load("local", paths[i]));
	for (i = 0; i < count; i++)
		require((contexts[i] = found[i].open_device(found[i].get_device_list(NULL)[0])) != NULL,
			"open_device");
	for (i = 0; i < count; i++)
		require((pds[i] = found[i].alloc_pd(contexts[i])) != NULL, "alloc_pd");
	for (i = 0; i < count; i++)
		require(!found[i].dealloc_pd(pds[i]) && !found[i].close_device(contexts[i]), "close");
}

static void use(const char *how, char **paths, int count)
{
	const struct plugin *plugins[MOST];
	struct ibv_context *contexts[MOST];
	struct ibv_pd *pds[MOST];
	int i;

	for (i = 0; i < count; i++)
		plugins[i] = plugin_of(load(how, paths[i]));
	for (i = 0; i < count; i++)
		require((contexts[i] = plugins[i]->open_device()) != NULL, "open_device");
	for (i = 0; i < count; i++)
		require((pds[i] = plugins[i]->alloc_pd(contexts[i])) != NULL, "alloc_pd");
	for (i = 0; i < count; i++) {
		require(!plugins[i]->dealloc_pd(pds[i]), "dealloc_pd");
		require(!plugins[i]->close_device(contexts[i]), "close_device");
		require(!plugins[i]->finds_what_is_not_there(), "finds what is not there");
	}
}

static void use_again(const char *path)
{
	int round;

	for (round = 0; round < 6; round++) {
		void *library = load("local", path);
		const struct plugin *plugin = plugin_of(library);
		struct ibv_context *context = plugin->open_device();

		require(context && !plugin->close_device(context), "open and close");
		require(!dlclose(library), "dlclose");
		/* What is loaded next does not come to the same addresses. */
		require(malloc(1 << 20) != NULL && dlopen("libm.so.6", RTLD_NOW), "libm");
	}
}

static void probe(const char *path)
{
	static const char *const names[] = { "ibv_open_device", "ibv_reg_mr_ex", "mlx5dv_init_obj" };
	static const char *const versions[] = { "IBVERBS_1.1", "IBVERBS_1.15", "MLX5_1.2" };
	void *program = dlopen(NULL, RTLD_NOW);
	void *library;
	int i;

	printf("weak %d\n", mlx5dv_init_obj != NULL);
	for (i = 0; i < 3; i++) {
		printf("%s %d %d %d, by version %d %d %d\n", names[i],
		       dlsym(RTLD_DEFAULT, names[i]) != NULL, dlsym(RTLD_NEXT, names[i]) != NULL,
		       dlsym(program, names[i]) != NULL,
		       dlvsym(RTLD_DEFAULT, names[i], versions[i]) != NULL,
		       dlvsym(RTLD_NEXT, names[i], versions[i]) != NULL,
		       dlvsym(program, names[i], versions[i]) != NULL);
		printf("%s\n", strstr(dlerror(), "undefined symbol") ? "undefined symbol" : "?");
	}
	/* A lookup that succeeds leaves no error behind. */
	library = load("local", path);
	dlsym(library, "ibv_open_device");
	printf("error %d\n", dlerror() != NULL);
	printf("another version %d\n", dlvsym(library, "ibv_open_device", "IBVERBS_1.0") != NULL);
	/* Now all can see it. */
	require(dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL, path);
	printf("global %d\n", dlsym(RTLD_DEFAULT, "ibv_open_device") != NULL);
}

int main(int argc, char **argv)
{
	require(argc > 2 && argc - 2 <= MOST, "usage");
	if (!strcmp(argv[1], "probe"))
		probe(argv[2]);
	else if (!strcmp(argv[1], "found"))
		use_found(argv + 2, argc - 2);
	else if (!strcmp(argv[1], "again"))
		use_again(argv[2]);
	else
		use(argv[1], argv + 2, argc - 2);
	return 0;
}
