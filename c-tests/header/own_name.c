/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program without RDMA whose functions happen to have our names; another part of it uses
 * the library.
 */
#include <stdio.h>

double rdma_post_send(const char *letter);
int rdma_post_writev(void);
int use_the_library(void);

static int sent;

double rdma_post_send(const char *letter)
{
	sent += *letter == 'x';
	return 0.5;
}

int rdma_post_writev(void)
{
	return ++sent;
}

int main(void)
{
	int status = use_the_library();

	if (sent != 0) {
		puts("the library called a function of the program");
		return 1;
	}
	if (rdma_post_send("x") + rdma_post_writev() != 2.5) {
		puts("the program called a function of the library");
		return 1;
	}
	return status;
}
