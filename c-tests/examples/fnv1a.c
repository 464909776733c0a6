/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ends with status 0 if fnv1a of the examples gives the values that its authors have published. */
#define _DEFAULT_SOURCE 1
#include "common.h"

int main(void)
{
	return fnv1a("", 0) == 0xcbf29ce484222325 &&
	       fnv1a("a", 1) == 0xaf63dc4c8601ec8c &&
	       fnv1a("foobar", 6) == 0x85944171f73967e8 ? 0 : 1;
}
