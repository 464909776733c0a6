// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls each function that creates invisible queues or keys twice; needs no device. */
#include "fake_mlx5.h"

int main(void)
{
	const uint64_t queue_pair = 1;

	for (int i = 0; i < 2; i++) {
		if (mlx5dv_init_obj(NULL, queue_pair) || mlx4dv_init_obj(NULL, queue_pair) ||
		    !mlx5dv_devx_obj_create(NULL, NULL, 0, NULL, 0) || !mlx5dv_create_mkey(NULL))
			return 1;
	}
	return 0;
}
