// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of librdmacm. The queues that they make are seen by the hooks of
//! libibverbs, which librdmacm calls; here, calls are told of, and the
//! ids that they use.

use std::ffi::{c_int, c_void};

use rdma_verbs_bindings::{
    ibv_pd, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq_init_attr, rdma_addrinfo, rdma_cm_event,
    rdma_cm_id, rdma_conn_param, rdma_event_channel, sockaddr,
};

use super::{Call, after, before, end_of};
use crate::event::{Fields, Outcome, Value};
use crate::kind::Kind;
use crate::model::model;
use crate::names::event_name;
use crate::original;
use crate::watch;

fn id_field(id: *mut rdma_cm_id) -> (&'static str, Value<'static>) {
    ("id", Value::Pointer(id as usize))
}

fn check_id(call: &str, id: *mut rdma_cm_id) {
    before(|| {
        watch::uses(call, Kind::ConnectionId, id as usize);
    });
}

fn ended(call: &Call, name: &str, arguments: Fields<'_>, result: c_int) {
    after(|errno| call.end(name, arguments, Outcome::Errno(result, errno)));
}

fn returned(call: &Call, name: &str, arguments: Fields<'_>) {
    after(|_| call.end(name, arguments, Outcome::Nothing));
}

/// An id that another call filled in.
unsafe fn filled(
    call: &Call,
    name: &str,
    arguments: Fields<'_>,
    result: c_int,
    id: *mut *mut rdma_cm_id,
) {
    after(|errno| {
        if result == 0 && !id.is_null() {
            model().born(*id as usize);
            call.end(name, arguments, Outcome::Got(&[id_field(*id)]));
        } else {
            call.end(name, arguments, Outcome::Errno(result, errno));
        }
    });
}

/// Calls a function that destroys an id.
unsafe fn destroy(
    name: &str,
    id: *mut rdma_cm_id,
    destroy: impl FnOnce() -> c_int,
    outcome: impl FnOnce(c_int, i32) -> Outcome<'static>,
) -> c_int {
    let mut call = Call::begin();
    let mut dying = None;
    check_id(name, id);
    before(|| dying = Some(model().dying(Kind::ConnectionId, id as usize, watch::stack())));
    let result = call.inside(destroy);
    after(|errno| {
        end_of(dying, result == 0);
        call.end(name, &[id_field(id)], outcome(result, errno));
    });
    result
}

/// Calls that take an id and give 0 or -1: a check before, a line after.
macro_rules! id_calls {
    ($(
        fn $name:ident($id:ident $(, $argument:ident: $type:ty)*)
            [$($field:expr),*];
    )*) => {$(
        pub unsafe fn $name($id: *mut rdma_cm_id $(, $argument: $type)*) -> c_int {
            let mut call = Call::begin();
            check_id(stringify!($name), $id);
            let result = call.inside(|| original::$name($id $(, $argument)*));
            ended(&call, stringify!($name), &[id_field($id) $(, $field)*], result);
            result
        }
    )*};
}

id_calls! {
    fn rdma_bind_addr(id, address: *mut sockaddr) [("address", Value::Address(address))];
    fn rdma_resolve_addr(id, from: *mut sockaddr, to: *mut sockaddr, timeout: c_int)
        [("from", Value::Address(from)), ("to", Value::Address(to))];
    fn rdma_resolve_route(id, timeout: c_int) [];
    fn rdma_listen(id, backlog: c_int) [("backlog", Value::Number(backlog.into()))];
    fn rdma_connect(id, parameters: *mut rdma_conn_param) [];
    fn rdma_accept(id, parameters: *mut rdma_conn_param) [];
    fn rdma_establish(id) [];
    fn rdma_reject(id, data: *const c_void, length: u8) [];
    fn rdma_disconnect(id) [];
    fn rdma_create_qp(id, pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) [];
    fn rdma_create_qp_ex(id, attributes: *mut ibv_qp_init_attr_ex) [];
    fn rdma_create_srq(id, pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) [];
    fn rdma_join_multicast(id, address: *mut sockaddr, context: *mut c_void)
        [("address", Value::Address(address))];
    fn rdma_leave_multicast(id, address: *mut sockaddr) [("address", Value::Address(address))];
    fn rdma_migrate_id(id, channel: *mut rdma_event_channel)
        [("channel", Value::Pointer(channel as usize))];
}

pub unsafe fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    space: c_int,
) -> c_int {
    let mut call = Call::begin();
    let result = call.inside(|| original::rdma_create_id(channel, id, context, space));
    let arguments = [("channel", Value::Pointer(channel as usize))];
    filled(&call, "rdma_create_id", &arguments, result, id);
    result
}

pub unsafe fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    destroy(
        "rdma_destroy_id",
        id,
        || original::rdma_destroy_id(id),
        Outcome::Errno,
    )
}

pub unsafe fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    attributes: *mut ibv_qp_init_attr,
) -> c_int {
    let mut call = Call::begin();
    let result = call.inside(|| original::rdma_create_ep(id, info, pd, attributes));
    filled(&call, "rdma_create_ep", &[], result, id);
    result
}

pub unsafe fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    let destroy_ep = || {
        original::rdma_destroy_ep(id);
        0
    };
    destroy("rdma_destroy_ep", id, destroy_ep, |_, _| Outcome::Nothing);
}

pub unsafe fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    let mut call = Call::begin();
    check_id("rdma_destroy_qp", id);
    call.inside(|| original::rdma_destroy_qp(id));
    returned(&call, "rdma_destroy_qp", &[id_field(id)]);
}

pub unsafe fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    let mut call = Call::begin();
    check_id("rdma_destroy_srq", id);
    call.inside(|| original::rdma_destroy_srq(id));
    returned(&call, "rdma_destroy_srq", &[id_field(id)]);
}

pub unsafe fn rdma_get_request(listen: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int {
    let mut call = Call::begin();
    check_id("rdma_get_request", listen);
    let result = call.inside(|| original::rdma_get_request(listen, id));
    let arguments = [("listen", Value::Pointer(listen as usize))];
    filled(&call, "rdma_get_request", &arguments, result, id);
    result
}

/// A thread may be cancelled in this call: nothing is held.
pub unsafe fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    // An event is told, also where another call waited for it.
    let call = Call::begin();
    let result = original::rdma_get_cm_event(channel, event);
    after(|errno| {
        let arguments = [("channel", Value::Pointer(channel as usize))];
        if result != 0 || event.is_null() || (*event).is_null() {
            call.end(
                "rdma_get_cm_event",
                &arguments,
                Outcome::Errno(result, errno),
            );
            return;
        }
        let got = &**event;
        model().born(got.id as usize);
        call.end(
            "rdma_get_cm_event",
            &arguments,
            Outcome::Got(&[
                ("event", Value::Text(event_name(got.event))),
                ("status", Value::Number(got.status.into())),
                id_field(got.id),
            ]),
        );
    });
    result
}

pub unsafe fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    let mut call = Call::begin();
    let name = event
        .as_ref()
        .map_or("NULL", |event| event_name(event.event));
    let result = call.inside(|| original::rdma_ack_cm_event(event));
    ended(
        &call,
        "rdma_ack_cm_event",
        &[("event", Value::Text(name))],
        result,
    );
    result
}
