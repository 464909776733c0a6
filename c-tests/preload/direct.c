// SPDX-License-Identifier: MIT OR Apache-2.0
/* Uses mlx5 direct access, of fake_mlx5.c, twice. */
#include <stdint.h>

int mlx5dv_init_obj(void *object, uint64_t kind);

int main(void)
{
	const uint64_t queue_pair = 1;

	return mlx5dv_init_obj(0, queue_pair) | mlx5dv_init_obj(0, queue_pair);
}
