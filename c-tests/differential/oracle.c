/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librdmacm's inline helpers under other names, so that they and the functions of the
 * same names stand in one program. Compiled twice, without -Iinclude:
 *	-DORACLE=oracle_with_assert
 *	-DORACLE=oracle_without_assert -DNDEBUG
 */
#define INLINE(name) sys_##name
#include "../lib/inlines.h"

/*
 * Our header of that name. Declarations that it shares with librdmacm must agree with those
 * above, or this does not compile.
 */
#undef RDMA_VERBS_H
#include "oracle.h"

#define SAME_TYPE(name) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name), \
						    __typeof__(sys_##name)), \
		       #name " has librdmacm's prototype");
FOR_EACH_HELPER(SAME_TYPE)
SAME_TYPE(rdma_seterrno)

const struct helpers ORACLE = {
#define ENTRY(name) .name = sys_##name,
	FOR_EACH_HELPER(ENTRY)
};
