// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an error status means, and what usually causes it.

use rdma_verbs_bindings as b;

/// The likely causes of an error status, most likely first.
pub const fn causes(status: u32) -> &'static str {
    match status {
        b::IBV_WC_LOC_LEN_ERR => {
            "the message is longer than the receive posted for it, or than the port's limit"
        }
        b::IBV_WC_LOC_QP_OP_ERR => {
            "the queue pair does not support the request, or its buffers are inconsistent"
        }
        b::IBV_WC_LOC_PROT_ERR => {
            "a local buffer is not inside a registered region of its lkey and protection domain, or was deregistered while the request was in flight"
        }
        b::IBV_WC_WR_FLUSH_ERR => {
            "the queue pair was in the error state: look for its first completion with another error status, or for a disconnect"
        }
        b::IBV_WC_MW_BIND_ERR => {
            "the memory window cannot be bound: wrong type, or a region without IBV_ACCESS_MW_BIND"
        }
        b::IBV_WC_BAD_RESP_ERR => "the peer sent an unexpected response",
        b::IBV_WC_LOC_ACCESS_ERR => "the peer wrote to local memory that does not allow it",
        b::IBV_WC_REM_INV_REQ_ERR => {
            "the peer rejected the request: its receive buffer is smaller than the message, or its queue pair does not allow the operation (qp_access_flags, max_dest_rd_atomic)"
        }
        b::IBV_WC_REM_ACCESS_ERR => {
            "the remote region does not allow the access: registered without remote access (rdma_reg_read, rdma_reg_write), wrong rkey, range past its end, another protection domain, or already deregistered"
        }
        b::IBV_WC_REM_OP_ERR => {
            "the peer could not execute the request; its own completions tell why"
        }
        b::IBV_WC_RETRY_EXC_ERR => {
            "no acknowledgement: the peer is gone or has destroyed its queue pair, is not yet ready, or the path (address, GID, MTU, cable) is wrong"
        }
        b::IBV_WC_RNR_RETRY_EXC_ERR => {
            "the peer had no receive posted: post receives earlier, or more of them, or set rnr_retry to 7 (retry forever)"
        }
        b::IBV_WC_LOC_RDD_VIOL_ERR | b::IBV_WC_REM_INV_RD_REQ_ERR => {
            "the reliable datagram domain does not match"
        }
        b::IBV_WC_REM_ABORT_ERR => "the peer aborted the operation",
        b::IBV_WC_FATAL_ERR => "the device has failed",
        b::IBV_WC_RESP_TIMEOUT_ERR => "the peer did not respond in time",
        b::IBV_WC_TM_ERR | b::IBV_WC_TM_RNDV_INCOMPLETE => "tag matching failed",
        _ => "see the vendor error code",
    }
}
