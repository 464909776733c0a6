/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What it takes to have a library in a process.
 *
 *	footprint load LIBRARY...	microseconds of dlopen and dlclose, with all that it
 *					needs; the libraries alternate
 *	footprint preload LIBRARY...	the largest resident size of /bin/true, plain and with
 *					each library preloaded
 *
 * Prints lines of CSV: section, case, variant, unit, median, lower and upper quartile.
 */
#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "statistics.h"

enum { ROUNDS = 101, MOST = 8 };

static double values[MOST][ROUNDS];

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void load(int count, char **libraries)
{
	for (int round = -1; round < ROUNDS; round++)
		for (int i = 0; i < count; i++) {
			double start = now_ns();
			void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);

			if (!library) {
				fprintf(stderr, "footprint: %s\n", dlerror());
				exit(EXIT_FAILURE);
			}
			dlclose(library);
			if (round >= 0)
				values[i][round] = (now_ns() - start) / 1e3;
		}
	for (int i = 0; i < count; i++)
		print_row("load", "dlopen and dlclose", base_name(libraries[i]), "us", values[i],
			  ROUNDS);
}

/* Kilobytes of /bin/true with a library before the others, if there is one. */
static double resident(const char *library)
{
	struct rusage usage;
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (library)
			setenv("LD_PRELOAD", library, 1);
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
		fprintf(stderr, "footprint: cannot run /bin/true\n");
		exit(EXIT_FAILURE);
	}
	return (double)usage.ru_maxrss;
}

static void preload(int count, char **libraries)
{
	static double plain[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		plain[round] = resident(NULL);
		for (int i = 0; i < count; i++)
			values[i][round] = resident(libraries[i]);
	}
	print_row("resident", "/bin/true", "nothing preloaded", "KiB", plain, ROUNDS);
	for (int i = 0; i < count; i++)
		print_row("resident", "/bin/true", base_name(libraries[i]), "KiB", values[i],
			  ROUNDS);
}

int main(int argc, char **argv)
{
	if (argc > 2 && argc <= MOST + 2 && !strcmp(argv[1], "load"))
		load(argc - 2, argv + 2);
	else if (argc > 2 && argc <= MOST + 2 && !strcmp(argv[1], "preload"))
		preload(argc - 2, argv + 2);
	else
		return fprintf(stderr, "usage: footprint load|preload LIBRARY...\n"), 2;
	return 0;
}
