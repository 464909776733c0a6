// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs, shared receive queues and address handles.

use std::ffi::{c_int, c_uint, c_void};

use rdma_verbs_bindings::{
    IBV_QP_STATE, IBV_QPS_RESET, ibv_ah, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_srq,
    ibv_srq_init_attr,
};

use super::{Call, after, before, create, destroy, domain_field};
use crate::event::{Field, Outcome, Value};
use crate::kind::Kind;
use crate::model::{Limits, Pair, SharedQueue, model};
use crate::names::{state_name, transport_name};
use crate::original;
use crate::outstanding::Requests;
use crate::watch;

pub fn pair_fields(qp: &ibv_qp, limits: Option<Limits>) -> [Field; 3] {
    [
        ("qp", Value::Hex(qp.qp_num.into())),
        (
            "sends",
            Value::Number(limits.map_or(0, |limits| limits.sends.into())),
        ),
        (
            "inline",
            Value::Number(limits.map_or(0, |limits| limits.inline.into())),
        ),
    ]
}

pub unsafe fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let call = Call::begin();
    before(|| watch::uses("ibv_create_qp", Kind::ProtectionDomain, pd as usize));
    let qp = original::ibv_create_qp(pd, attributes);
    after(|errno| {
        let Some(granted) = attributes.as_ref() else {
            return;
        };
        let arguments = [
            domain_field(pd),
            ("type", Value::Text(transport_name(granted.qp_type))),
        ];
        if qp.is_null() {
            call.end("ibv_create_qp", &arguments, Outcome::Object(0, errno));
            return;
        }
        let limits = Limits::from(granted.cap);
        let pair = Pair {
            srq: granted.srq as usize,
            send_cq: granted.send_cq as usize,
            recv_cq: granted.recv_cq as usize,
            limits: Some(limits),
            all_signaled: granted.sq_sig_all != 0,
            send: Requests::with_depth(granted.cap.max_send_wr),
            recv: Requests::with_depth(granted.cap.max_recv_wr),
            ..model().describe_pair(qp, pd)
        };
        model().insert_pair(pair);
        call.end(
            "ibv_create_qp",
            &arguments,
            Outcome::Detailed(qp as usize, &pair_fields(&*qp, Some(limits))),
        );
    });
    qp
}

pub unsafe fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int {
    let call = Call::begin();
    before(|| watch::uses("ibv_modify_qp", Kind::QueuePair, qp as usize));
    let result = original::ibv_modify_qp(qp, attributes, mask);
    after(|_| {
        let state = attributes
            .as_ref()
            .filter(|_| mask as c_uint & IBV_QP_STATE != 0)
            .map(|attributes| attributes.qp_state);
        if (result, state) == (0, Some(IBV_QPS_RESET)) {
            // Its requests are gone, without completions.
            if let Some(mut pair) = model().pairs.get(qp as u64) {
                pair.send.clear();
                pair.recv.clear();
                pair.failed = false;
                pair.full = None;
            }
        }
        let number = qp.as_ref().map_or(0, |qp| qp.qp_num);
        call.end(
            "ibv_modify_qp",
            &[
                ("qp", Value::Hex(number.into())),
                ("state", Value::Text(state.map_or("unchanged", state_name))),
            ],
            Outcome::Code(result),
        );
    });
    result
}

pub unsafe fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let mut number = 0;
    before(|| {
        if let Some(pair) = model().pairs.get(qp as u64) {
            number = pair.number;
        }
    });
    destroy(
        "ibv_destroy_qp",
        Kind::QueuePair,
        qp as usize,
        ("qp", Value::Hex(number.into())),
        || original::ibv_destroy_qp(qp),
    )
}

pub unsafe fn ibv_create_srq(pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    create(
        "ibv_create_srq",
        (Kind::ProtectionDomain, pd as usize),
        &[domain_field(pd)],
        || original::ibv_create_srq(pd, attributes),
        |srq| {
            if let Some(granted) = attributes.as_ref() {
                let queue = SharedQueue {
                    queue: srq as usize,
                    context: model().context_id((*srq).context),
                    domain: model().root(pd),
                    most_buffers: Some(granted.attr.max_sge),
                    requests: Requests::with_depth(granted.attr.max_wr),
                    ..SharedQueue::default()
                };
                model().shared.insert(srq as u64, queue);
            }
        },
    )
}

pub unsafe fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    destroy(
        "ibv_destroy_srq",
        Kind::SharedReceiveQueue,
        srq as usize,
        ("srq", Value::Pointer(srq as usize)),
        || original::ibv_destroy_srq(srq),
    )
}

pub unsafe fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut c_void) -> *mut ibv_ah {
    create(
        "ibv_create_ah",
        (Kind::ProtectionDomain, pd as usize),
        &[domain_field(pd)],
        || original::ibv_create_ah(pd, attributes),
        |_| {},
    )
}

/// Whether it calls the one above depends on how libibverbs was built.
pub unsafe fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut c_void,
    grh: *mut c_void,
    port: u8,
) -> *mut ibv_ah {
    let ah = original::ibv_create_ah_from_wc(pd, wc, grh, port);
    after(|_| model().born(ah as usize));
    ah
}

pub unsafe fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    destroy(
        "ibv_destroy_ah",
        Kind::AddressHandle,
        ah as usize,
        ("ah", Value::Pointer(ah as usize)),
        || original::ibv_destroy_ah(ah),
    )
}
