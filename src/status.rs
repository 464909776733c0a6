// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meaning of a completion's status, as text and as an errno value.

use core::ffi::{CStr, c_char, c_int};

use libc::{
    EACCES, EBADR, EBADRQC, ECANCELED, ECONNABORTED, EFAULT, EHOSTUNREACH, EINPROGRESS, EINVAL,
    EIO, EMSGSIZE, ENOBUFS, EPROTO, EREMOTEIO,
};
use rdma_verbs_bindings::{
    IBV_WC_BAD_RESP_ERR, IBV_WC_INV_EEC_STATE_ERR, IBV_WC_INV_EECN_ERR, IBV_WC_LOC_ACCESS_ERR,
    IBV_WC_LOC_EEC_OP_ERR, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR,
    IBV_WC_LOC_RDD_VIOL_ERR, IBV_WC_MW_BIND_ERR, IBV_WC_REM_ABORT_ERR, IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_INV_RD_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RESP_TIMEOUT_ERR,
    IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE,
    IBV_WC_WR_FLUSH_ERR, ibv_wc, ibv_wc_status,
};

use crate::logger::Name;

/// What happened, and the likely cause: a C string for each status from 0, then one for the
/// others. They are one block, since each pointer of a table would have to be relocated when
/// the library is loaded.
static TEXTS: &str = "\
success\0\
local length error: longer than the receive buffers or the port's limit\0\
local queue pair operation error: the queue pair does not support the request\0\
local EE context operation error\0\
local protection error: a local buffer is not inside its region, \
or the region is deregistered or lacks local write access\0\
flushed: the connection was closed, or broken by an earlier request\0\
memory window bind error: the region does not allow it\0\
bad response: the peer sent an unexpected response\0\
local access error: the local region does not allow the peer's write\0\
remote invalid request: longer than the peer's receive buffer, \
or an operation that its queue pair does not allow\0\
remote access error: the rkey is wrong or stale, the range is not inside the peer's region, \
or the region does not allow it\0\
remote operation error: the peer could not execute the request\0\
retries exceeded: the peer does not respond; it is gone, unreachable or not yet connected\0\
receiver not ready: the peer had no receive posted, even after all retries\0\
local RDD violation\0\
remote invalid RD request\0\
aborted by the peer\0\
invalid EE context number\0\
invalid EE context state\0\
fatal error: the device has failed\0\
response timeout: the peer did not respond in time\0\
general error of the device or its driver\0\
tag matching error\0\
tag matching: the program must fetch the data\0\
unknown status\0";

/// The text for a completion: a C string that is never freed.
///
/// # Safety
/// `wc` is NULL or points to an `ibv_wc`.
pub unsafe fn text_of(wc: *const ibv_wc) -> *const c_char {
    if wc.is_null() {
        return c"no completion: wc is NULL".as_ptr();
    }
    // SAFETY: `wc` is not NULL, so it is valid.
    text(unsafe { (*wc).status }).as_ptr()
}

/// The errno value for a completion.
///
/// # Safety
/// `wc` is NULL or points to an `ibv_wc`.
pub unsafe fn errno_of(wc: *const ibv_wc) -> c_int {
    if wc.is_null() {
        return EINVAL;
    }
    // SAFETY: `wc` is not NULL, so it is valid.
    errno(unsafe { (*wc).status })
}

/// The text for a status.
pub fn text(status: ibv_wc_status) -> Name {
    const UNKNOWN: ibv_wc_status = IBV_WC_TM_RNDV_INCOMPLETE.wrapping_add(1);
    let mut text: *const c_char = TEXTS.as_ptr().cast();
    for _ in 0..status.min(UNKNOWN) {
        // SAFETY: there are so many texts before the last.
        text = unsafe { text.add(CStr::from_ptr(text).count_bytes()).add(1) };
    }
    // SAFETY: the text is never freed.
    Name::new(unsafe { CStr::from_ptr(text) })
}

/// What the status would be as an errno value. Of those with a meaning of their own none is among
/// them: ETIMEDOUT (a request has not completed), EINVAL (of an argument), EOPNOTSUPP, EBUSY.
pub fn errno(status: ibv_wc_status) -> c_int {
    match status {
        IBV_WC_SUCCESS => 0,
        IBV_WC_LOC_LEN_ERR => EMSGSIZE,
        IBV_WC_LOC_QP_OP_ERR
        | IBV_WC_LOC_EEC_OP_ERR
        | IBV_WC_MW_BIND_ERR
        | IBV_WC_LOC_RDD_VIOL_ERR
        | IBV_WC_INV_EECN_ERR
        | IBV_WC_INV_EEC_STATE_ERR => EBADR,
        IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => EFAULT,
        IBV_WC_WR_FLUSH_ERR => ECANCELED,
        IBV_WC_BAD_RESP_ERR => EPROTO,
        IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_INV_RD_REQ_ERR => EBADRQC,
        IBV_WC_REM_ACCESS_ERR => EACCES,
        IBV_WC_REM_OP_ERR => EREMOTEIO,
        IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR => EHOSTUNREACH,
        IBV_WC_RNR_RETRY_EXC_ERR => ENOBUFS,
        IBV_WC_REM_ABORT_ERR => ECONNABORTED,
        IBV_WC_TM_RNDV_INCOMPLETE => EINPROGRESS,
        _ => EIO,
    }
}
