// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections, registered memory and completions, safe to use.
//!
//! A [`Region`] borrows its [`Connection`], so it cannot outlive it; each is released when
//! it is dropped. Memory that a device may write at any time cannot be borrowed: a region's
//! memory becomes accessible when it is no longer registered.

use std::cell::Cell;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::time::{Duration, Instant};
use std::{fmt, io, mem, ptr};

use rdma_verbs_bindings::{
    IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_TRANSPORT_IWARP, IBV_WC_SUCCESS, ibv_mr, ibv_pd, ibv_qp_cap,
    ibv_qp_init_attr, ibv_wc, rdma_addrinfo, rdma_cm_id, rdma_conn_param,
};

const RDMA_PS_TCP: c_int = 0x0106;
/// Not 7: soft-RoCE takes that as forever.
const RETRIES: u8 = 6;

/// librdma_verbs.
mod ffi {
    use super::{c_char, c_int, c_void, ibv_mr, ibv_wc, rdma_cm_id};

    unsafe extern "C" {
        pub fn rdma_reg_msgs(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr;
        pub fn rdma_reg_write(id: *mut rdma_cm_id, addr: *mut c_void, length: usize)
        -> *mut ibv_mr;
        pub fn rdma_dereg_mr(mr: *mut ibv_mr) -> c_int;
        pub fn rdma_post_recv(
            id: *mut rdma_cm_id,
            context: *mut c_void,
            addr: *mut c_void,
            length: usize,
            mr: *mut ibv_mr,
        ) -> c_int;
        pub fn rdma_post_read(
            id: *mut rdma_cm_id,
            context: *mut c_void,
            addr: *mut c_void,
            length: usize,
            mr: *mut ibv_mr,
            flags: c_int,
            remote_addr: u64,
            rkey: u32,
        ) -> c_int;
        pub fn rdmax_get_send_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc, ms: c_int) -> c_int;
        pub fn rdmax_get_recv_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc, ms: c_int) -> c_int;
        pub fn rdmax_wc_strerror(wc: *const ibv_wc) -> *const c_char;
        pub fn rdmax_wc_errno(wc: *const ibv_wc) -> c_int;
    }
}

/// librdmacm.
mod cm {
    use super::{
        c_char, c_int, ibv_pd, ibv_qp_init_attr, rdma_addrinfo, rdma_cm_id, rdma_conn_param,
    };

    unsafe extern "C" {
        pub fn rdma_getaddrinfo(
            node: *const c_char,
            service: *const c_char,
            hints: *const rdma_addrinfo,
            found: *mut *mut rdma_addrinfo,
        ) -> c_int;
        pub fn rdma_freeaddrinfo(found: *mut rdma_addrinfo);
        pub fn rdma_create_ep(
            id: *mut *mut rdma_cm_id,
            address: *mut rdma_addrinfo,
            pd: *mut ibv_pd,
            attr: *mut ibv_qp_init_attr,
        ) -> c_int;
        pub fn rdma_destroy_ep(id: *mut rdma_cm_id);
        pub fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
        pub fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
        // Of the C library.
        pub fn gai_strerror(code: c_int) -> *const c_char;
    }
}

/// `struct ibv_device`, to its name.
#[repr(C)]
struct Device {
    ops: [*mut c_void; 2],
    node_type: c_int,
    transport_type: c_int,
    name: [c_char; 64],
}

// --- errors ----------------------------------------------------------------------------

/// A failed work request.
#[derive(Debug)]
pub struct CompletionError {
    status: u32,
    text: &'static str,
}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (completion status {})", self.text, self.status)
    }
}

impl Error for CompletionError {}

/// An error with the kind of its errno: `PermissionDenied` for a wrong rkey. It holds a
/// [`CompletionError`].
fn completion_error(wc: &ibv_wc) -> io::Error {
    // SAFETY: `wc` is valid; the text is never changed or freed.
    let (text, errno) = unsafe {
        (
            CStr::from_ptr(ffi::rdmax_wc_strerror(wc)),
            ffi::rdmax_wc_errno(wc),
        )
    };
    let text = text.to_str().unwrap_or("unknown");
    let status = wc.status;
    io::Error::new(
        io::Error::from_raw_os_error(errno).kind(),
        CompletionError { status, text },
    )
}

/// The same error, with what was being done.
pub fn while_doing(what: &str) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// For functions that return 0, or -1 with errno.
fn check(call: &str, result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(while_doing(call)(io::Error::last_os_error()))
    }
}

// --- connections -----------------------------------------------------------------------

/// What an address was resolved to.
struct AddressInfo(*mut rdma_addrinfo);

impl AddressInfo {
    fn resolve(host: &str, port: &str) -> io::Result<Self> {
        let (node, service) = (CString::new(host)?, CString::new(port)?);
        // SAFETY: zeros are NULL pointers and numbers, so a valid value.
        let mut hints: rdma_addrinfo = unsafe { mem::zeroed() };
        hints.ai_port_space = RDMA_PS_TCP;
        let mut found = ptr::null_mut();
        // SAFETY: all pointers are valid.
        let code = unsafe {
            cm::rdma_getaddrinfo(
                node.as_ptr(),
                service.as_ptr(),
                &raw const hints,
                &raw mut found,
            )
        };
        match code {
            0 => Ok(Self(found)),
            -1 => Err(while_doing("rdma_getaddrinfo")(io::Error::last_os_error())),
            code => {
                // SAFETY: the C library has a text for any number.
                let text = unsafe { CStr::from_ptr(cm::gai_strerror(code)) };
                Err(io::Error::other(format!(
                    "rdma_getaddrinfo: {}",
                    text.to_string_lossy()
                )))
            }
        }
    }
}

impl Drop for AddressInfo {
    fn drop(&mut self) {
        // SAFETY: it is from `rdma_getaddrinfo`, and nobody else frees it.
        unsafe { cm::rdma_freeaddrinfo(self.0) }
    }
}

/// One side of a reliable connection: an `rdma_cm_id` with a queue pair.
pub struct Connection {
    id: *mut rdma_cm_id,
    connected: Cell<bool>,
}

impl Connection {
    /// Resolves the address and creates the queue pair. `sends` and `receives` limit how many
    /// requests may be outstanding.
    pub fn new(host: &str, port: &str, sends: u32, receives: u32) -> io::Result<Self> {
        let address = AddressInfo::resolve(host, port)?;
        // SAFETY: zeros are NULL pointers and numbers, so a valid value.
        let mut attr: ibv_qp_init_attr = unsafe { mem::zeroed() };
        attr.qp_type = IBV_QPT_RC;
        attr.cap = ibv_qp_cap {
            max_send_wr: sends,
            max_recv_wr: receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let mut id = ptr::null_mut();
        // SAFETY: the pointers are valid; with NULL the default protection domain is taken.
        let result =
            unsafe { cm::rdma_create_ep(&raw mut id, address.0, ptr::null_mut(), &raw mut attr) };
        check("rdma_create_ep", result)?;
        Ok(Self {
            id,
            connected: Cell::new(false),
        })
    }

    fn device(&self) -> &Device {
        // SAFETY: the id has a device, which has these fields, and outlives it.
        unsafe { &*(*(*self.id).verbs).device.cast() }
    }

    /// The name of the RDMA device.
    pub fn device_name(&self) -> String {
        // SAFETY: libibverbs ends the name with a zero.
        let name = unsafe { CStr::from_ptr(self.device().name.as_ptr()) };
        name.to_string_lossy().into_owned()
    }

    /// The port of the device.
    pub fn port_num(&self) -> u8 {
        // SAFETY: the id is valid as long as `self`.
        unsafe { (*self.id).port_num }
    }

    /// Connects to the resolved address.
    pub fn connect(&self) -> io::Result<()> {
        // SAFETY: zeros are NULL pointers and numbers, so a valid value.
        let mut param: rdma_conn_param = unsafe { mem::zeroed() };
        // As many concurrent RDMA reads as both devices allow.
        param.responder_resources = u8::MAX;
        param.initiator_depth = u8::MAX;
        param.retry_count = RETRIES;
        // SAFETY: both pointers are valid.
        check("rdma_connect", unsafe {
            cm::rdma_connect(self.id, &raw mut param)
        })?;
        self.connected.set(true);
        Ok(())
    }

    /// Posts a receive into a part of the region.
    pub fn post_recv(&self, to: &Region, part: Range<usize>) -> io::Result<()> {
        let (addr, length) = to.part(part)?;
        // SAFETY: id and region are valid; the memory is freed only when no device can use it.
        let result = unsafe { ffi::rdma_post_recv(self.id, ptr::null_mut(), addr, length, to.mr) };
        check("rdma_post_recv", result)
    }

    /// Posts an RDMA read of the peer's memory into a part of the region.
    pub fn post_read(
        &self,
        to: &Region,
        part: Range<usize>,
        remote_addr: u64,
        rkey: u32,
    ) -> io::Result<()> {
        let (addr, length) = to.part(part)?;
        // SAFETY: id and region are valid; the memory is freed only when no device can use it.
        let result = unsafe {
            ffi::rdma_post_read(
                self.id,
                ptr::null_mut(),
                addr,
                length,
                to.mr,
                IBV_SEND_SIGNALED as c_int,
                remote_addr,
                rkey,
            )
        };
        check("rdma_post_read", result)
    }

    /// Waits for the next completion of the send queue.
    pub fn await_send(&self, limit: Duration) -> io::Result<()> {
        // SAFETY: id and completion are valid.
        await_completion(limit, |wc, ms| unsafe {
            ffi::rdmax_get_send_comp(self.id, wc, ms)
        })?;
        Ok(())
    }

    /// Waits for the next message, and returns its length.
    pub fn await_recv(&self, limit: Duration) -> io::Result<u32> {
        // SAFETY: id and completion are valid.
        let wc = await_completion(limit, |wc, ms| unsafe {
            ffi::rdmax_get_recv_comp(self.id, wc, ms)
        })?;
        Ok(wc.byte_len)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the id is valid, and no region is left: they borrow the connection.
        unsafe {
            if self.connected.get() {
                cm::rdma_disconnect(self.id);
            }
            cm::rdma_destroy_ep(self.id);
        }
    }
}

/// Calls `get` until it has a completion, and turns a failed one into an error.
fn await_completion(
    limit: Duration,
    get: impl Fn(*mut ibv_wc, c_int) -> c_int,
) -> io::Result<ibv_wc> {
    // SAFETY: zeros are a valid value.
    let mut wc: ibv_wc = unsafe { mem::zeroed() };
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        match get(&raw mut wc, c_int::try_from(left).unwrap_or(c_int::MAX)) {
            1 if wc.status == IBV_WC_SUCCESS => return Ok(wc),
            1 => return Err(completion_error(&wc)),
            0 => return Err(io::ErrorKind::TimedOut.into()),
            _ => match io::Error::last_os_error() {
                // Interrupted by a signal.
                error if error.kind() == io::ErrorKind::Interrupted => (),
                error => return Err(while_doing("waiting for a completion")(error)),
            },
        }
    }
}

// --- memory ----------------------------------------------------------------------------

/// Registered memory.
pub struct Region<'c> {
    memory: Vec<u8>,
    mr: *mut ibv_mr,
    connection: PhantomData<&'c Connection>,
}

impl<'c> Region<'c> {
    /// Memory for messages, and as the destination of RDMA reads. The peer has no access to
    /// it, except on iWARP, where the response to a read arrives as a write by the peer.
    pub fn new(connection: &'c Connection, length: usize) -> io::Result<Self> {
        let (name, register): (_, unsafe extern "C" fn(_, _, _) -> _) =
            if connection.device().transport_type == IBV_TRANSPORT_IWARP {
                ("rdma_reg_write", ffi::rdma_reg_write)
            } else {
                ("rdma_reg_msgs", ffi::rdma_reg_msgs)
            };
        let mut memory = vec![0; length];
        // SAFETY: the id is valid, and the memory stays where it is until it is deregistered.
        let mr = unsafe { register(connection.id, memory.as_mut_ptr().cast(), length) };
        if mr.is_null() {
            return Err(while_doing(name)(io::Error::last_os_error()));
        }
        Ok(Self {
            memory,
            mr,
            connection: PhantomData,
        })
    }

    /// Deregisters the memory, so that no device writes to it any more, and returns it.
    pub fn into_bytes(mut self) -> io::Result<Vec<u8>> {
        self.deregister()?;
        Ok(mem::take(&mut self.memory))
    }

    fn deregister(&mut self) -> io::Result<()> {
        // SAFETY: the region is valid, and is used no more when it has been deregistered.
        check("rdma_dereg_mr", unsafe { ffi::rdma_dereg_mr(self.mr) })?;
        self.mr = ptr::null_mut();
        Ok(())
    }

    /// Address and length of a part.
    fn part(&self, part: Range<usize>) -> io::Result<(*mut c_void, usize)> {
        if part.start > part.end || part.end > self.memory.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{part:?} is outside the region of {} bytes",
                    self.memory.len()
                ),
            ));
        }
        // SAFETY: `mr` is valid; what it has registered goes from `addr` to beyond the part.
        let addr = unsafe { (*self.mr).addr.byte_add(part.start) };
        Ok((addr, part.len()))
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        if !self.mr.is_null() && self.deregister().is_err() {
            // A device may still write to it: leak it rather than free it.
            mem::forget(mem::take(&mut self.memory));
        }
    }
}
