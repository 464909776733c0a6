/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Provider functions that the hooks know; defined in fake_mlx5.c. */
#ifndef FAKE_MLX5_H
#define FAKE_MLX5_H

#include <infiniband/verbs.h>

int mlx5dv_init_obj(void *object, uint64_t kind);
int mlx4dv_init_obj(void *object, uint64_t kind);
void *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t in_length,
			     void *out, size_t out_length);
void *mlx5dv_create_mkey(void *attributes);
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int more);
struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attributes,
				void *more);
struct ibv_qp *hnsdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attributes,
			       void *more);
struct ibv_qp *efadv_create_qp_ex(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attributes, void *more,
				  uint32_t length);
struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes,
				      uint32_t kind);
struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context,
				   struct ibv_cq_init_attr_ex *attributes, void *more);
struct ibv_cq_ex *efadv_create_cq(struct ibv_context *context,
				  struct ibv_cq_init_attr_ex *attributes, void *more,
				  uint32_t length);

#endif
