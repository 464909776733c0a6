// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of providers by which a program goes around the verbs.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rdma_verbs_bindings::{
    ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_mr, ibv_pd, ibv_qp, ibv_qp_init_attr,
    ibv_qp_init_attr_ex,
};

use super::extended::{created_completion_queue, created_pair};
use super::memory::Registration;
use super::{Call, after};
use crate::event::Outcome;
use crate::model::{Limits, model};
use crate::original;
use crate::output::say;

/// Says something, once for each place that says it.
fn say_once(said: &AtomicBool, text: &str) {
    if !said.swap(true, Relaxed) {
        say(format_args!("{text}"));
    }
}

/// `MLX5DV_OBJ_QP`, `_CQ`, `_SRQ` and `_RWQ`, and the same of mlx4: queues whose memory
/// is handed out.
const QUEUES: u64 = 0xf;

/// The program got the memory of objects.
fn handed_out(result: c_int, kind: u64, said: &AtomicBool, text: &str) {
    after(|_| {
        if result == 0 && kind & QUEUES != 0 {
            model().direct.store(true, Relaxed);
            say_once(said, text);
        }
    });
}

pub unsafe fn mlx5dv_init_obj(object: *mut c_void, kind: u64) -> c_int {
    static SAID: AtomicBool = AtomicBool::new(false);
    let result = original::mlx5dv_init_obj(object, kind);
    let text = "the program accesses queue memory directly (mlx5dv_init_obj): the data path of those queues is not visible";
    handed_out(result, kind, &SAID, text);
    result
}

pub unsafe fn mlx4dv_init_obj(object: *mut c_void, kind: u64) -> c_int {
    static SAID: AtomicBool = AtomicBool::new(false);
    let result = original::mlx4dv_init_obj(object, kind);
    let text = "the program accesses queue memory directly (mlx4dv_init_obj): the data path of those queues is not visible";
    handed_out(result, kind, &SAID, text);
    result
}

/// Objects that are made by commands of the device.
pub unsafe fn mlx5dv_devx_obj_create(
    context: *mut ibv_context,
    input: *const c_void,
    input_length: usize,
    output: *mut c_void,
    output_length: usize,
) -> *mut c_void {
    static SAID: AtomicBool = AtomicBool::new(false);
    let object =
        original::mlx5dv_devx_obj_create(context, input, input_length, output, output_length);
    after(|_| {
        if !object.is_null() {
            model().direct.store(true, Relaxed);
            own_keys(
                &SAID,
                "the program creates objects with DevX: queues among them are not visible, and unknown keys are no longer reported",
            );
        }
    });
    object
}

/// The program has memory keys that no registration gave out.
fn own_keys(said: &AtomicBool, text: &str) {
    model().contexts.each(|_, context| context.complete = false);
    say_once(said, text);
}

pub unsafe fn mlx5dv_create_qp(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_init_attr_ex,
    more: *mut c_void,
) -> *mut ibv_qp {
    let call = Call::begin();
    let qp = original::mlx5dv_create_qp(context, attributes, more);
    created_pair("mlx5dv_create_qp", &call, qp, attributes);
    qp
}

pub unsafe fn hnsdv_create_qp(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_init_attr_ex,
    more: *mut c_void,
) -> *mut ibv_qp {
    let call = Call::begin();
    let qp = original::hnsdv_create_qp(context, attributes, more);
    created_pair("hnsdv_create_qp", &call, qp, attributes);
    qp
}

pub unsafe fn mlx5dv_create_cq(
    context: *mut ibv_context,
    attributes: *mut ibv_cq_init_attr_ex,
    more: *mut c_void,
) -> *mut ibv_cq_ex {
    let call = Call::begin();
    let cq = original::mlx5dv_create_cq(context, attributes, more);
    created_completion_queue("mlx5dv_create_cq", &call, cq, attributes);
    cq
}

pub unsafe fn efadv_create_cq(
    context: *mut ibv_context,
    attributes: *mut ibv_cq_init_attr_ex,
    more: *mut c_void,
    length: u32,
) -> *mut ibv_cq_ex {
    let call = Call::begin();
    let cq = original::efadv_create_cq(context, attributes, more, length);
    created_completion_queue("efadv_create_cq", &call, cq, attributes);
    cq
}

pub unsafe fn mlx5dv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    more: c_int,
) -> *mut ibv_mr {
    Registration {
        name: "mlx5dv_reg_dmabuf_mr",
        pd,
        addr: offset as usize,
        length,
        start: iova,
        access: access as u32,
    }
    .make(|| original::mlx5dv_reg_dmabuf_mr(pd, offset, length, iova, fd, access, more))
}

/// A key that a program makes for itself, by work requests that are not seen.
pub unsafe fn mlx5dv_create_mkey(attributes: *mut c_void) -> *mut c_void {
    static SAID: AtomicBool = AtomicBool::new(false);
    let key = original::mlx5dv_create_mkey(attributes);
    after(|_| {
        if !key.is_null() {
            own_keys(
                &SAID,
                "the program creates its own mlx5 memory keys: their ranges are unknown, and unknown keys are no longer reported",
            );
        }
    });
    key
}

pub unsafe fn efadv_create_qp_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_init_attr_ex,
    more: *mut c_void,
    length: u32,
) -> *mut ibv_qp {
    let call = Call::begin();
    let qp = original::efadv_create_qp_ex(context, attributes, more, length);
    created_pair("efadv_create_qp_ex", &call, qp, attributes);
    qp
}

pub unsafe fn efadv_create_driver_qp(
    pd: *mut ibv_pd,
    attributes: *mut ibv_qp_init_attr,
    kind: u32,
) -> *mut ibv_qp {
    let call = Call::begin();
    let qp = original::efadv_create_driver_qp(pd, attributes, kind);
    after(|errno| {
        if let (false, Some(granted)) = (qp.is_null(), attributes.as_ref()) {
            let mut pair = model().describe_pair(qp, pd);
            pair.limits = Some(Limits::from(granted.cap));
            pair.all_signaled = granted.sq_sig_all != 0;
            model().insert_pair(pair);
        }
        call.end(
            "efadv_create_driver_qp",
            &[],
            Outcome::Object(qp as usize, errno),
        );
    });
    qp
}
