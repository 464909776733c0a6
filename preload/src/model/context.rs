// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts, and the devices they are of.

use std::ffi::{CStr, c_char, c_int, c_void};

use rdma_verbs_bindings::{IBV_TRANSPORT_IWARP, ibv_context, ibv_transport_type};

/// A device that was opened.
#[derive(Default)]
pub struct Context {
    /// Small, from 1; 0 stands for a context whose opening was not seen.
    pub id: u32,
    /// All its registrations are seen: it was not imported from another process, and
    /// no keys are made by means that are not hooked.
    pub complete: bool,
    pub name: Name,
}

/// A device's name.
#[derive(Clone, Copy, Default)]
pub struct Name {
    bytes: [u8; 24],
}

impl Name {
    /// # Safety
    /// `context` is open.
    pub unsafe fn of(context: *mut ibv_context) -> Self {
        Device::of(context).map_or_else(Self::default, |device| {
            // SAFETY: the name ends with a zero.
            Self::new(CStr::from_ptr(device.name.as_ptr()).to_bytes())
        })
    }

    fn new(name: &[u8]) -> Self {
        let mut this = Self::default();
        for (to, from) in this.bytes.iter_mut().zip(name) {
            *to = *from;
        }
        this
    }

    pub fn text(&self) -> &str {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.bytes.len());
        std::str::from_utf8(self.bytes.get(..end).unwrap_or_default()).unwrap_or("?")
    }
}

/// How `struct ibv_device` begins, in all releases.
#[repr(C)]
struct Device {
    operations: [*const c_void; 2],
    node_type: c_int,
    transport_type: ibv_transport_type,
    name: [c_char; 64],
}

impl Device {
    unsafe fn of<'a>(context: *mut ibv_context) -> Option<&'a Self> {
        // SAFETY: NULL, or the device of an open context.
        (*context).device.cast::<Self>().as_ref()
    }
}

/// Whether a device speaks iWARP.
///
/// # Safety
/// `context` is open.
pub unsafe fn is_iwarp(context: *mut ibv_context) -> bool {
    Device::of(context).is_some_and(|device| device.transport_type == IBV_TRANSPORT_IWARP)
}

#[cfg(test)]
mod tests {
    use super::Device;
    use std::mem::offset_of;

    /// As a C compiler places them on 64-bit machines.
    #[test]
    fn a_device_begins_as_in_c() {
        assert_eq!(offset_of!(Device, node_type), 16);
        assert_eq!(offset_of!(Device, transport_type), 20);
        assert_eq!(offset_of!(Device, name), 24);
    }
}
