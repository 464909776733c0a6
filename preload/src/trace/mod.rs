// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace: each event becomes a line. Payload is never read.

mod json;
mod perfetto;
mod text;

use std::fmt;

use rdma_verbs_settings::Format;

pub use perfetto::{Lanes, finish, forget, start};

use crate::output::{self, Buffer};
use crate::request::{Helper, Outstanding, Request};
use crate::settings;
use crate::thread;

/// A line of the trace.
type Line = Buffer<Box<[u8]>>;

/// A long list of buffers has its place.
const LINE: usize = 4096;

/// The queue that an event is about.
#[derive(Clone, Copy)]
pub enum Queue {
    /// The number of a queue pair.
    Pair(u32),
    /// The address of a shared receive queue or work queue.
    Shared(usize),
}

impl fmt::Display for Queue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair(number) => write!(out, "qp {number:#x}"),
            Self::Shared(address) => write!(out, "srq {address:#x}"),
        }
    }
}

/// A request was posted.
pub struct Posted<'a> {
    pub queue: Queue,
    pub request: &'a Request<'a>,
    pub helper: Helper,
    /// Its number in the queue; `None` where it was refused.
    pub serial: Option<u64>,
    /// What the call returned; `None` in a batch, whose end returns for all.
    pub result: Option<i32>,
    pub at: u64,
}

/// A completion was taken.
pub struct Completed<'a> {
    pub queue: Queue,
    pub is_receive: bool,
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_error: u32,
    /// Where the completion says it.
    pub bytes: Option<u32>,
    pub immediate: Option<u32>,
    pub request: Option<&'a Outstanding>,
    pub at: u64,
}

/// A value of an argument or a result.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Pointer(usize),
    Hex(u64),
    Number(i64),
    /// A number of bytes; the largest stands for all memory.
    Size(u64),
    Text(&'a str),
    /// Flags of `enum ibv_access_flags`.
    Access(u32),
    /// A socket address, or NULL.
    Address(*const rdma_verbs_bindings::sockaddr),
}

/// Values with their names.
pub type Fields<'a> = &'a [(&'a str, Value<'a>)];

/// What a call returned.
#[derive(Clone, Copy)]
pub enum Outcome<'a> {
    Nothing,
    /// 0, or an error number.
    Code(i32),
    /// 0, or -1 with this errno.
    Errno(i32, i32),
    /// An object, or NULL with this errno.
    Object(usize, i32),
    /// An object and what else is known about it.
    Detailed(usize, Fields<'a>),
    /// 0 and what came with it.
    Got(Fields<'a>),
}

/// Any other call.
pub struct Called<'a> {
    pub name: &'a str,
    pub arguments: Fields<'a>,
    pub outcome: Outcome<'a>,
    pub from: u64,
    pub to: u64,
}

/// Writes a line, in the thread's own memory: its stack may be too small.
fn emit(write: impl FnOnce(&mut Line)) {
    let place = &thread::own().line;
    let mut line = place.take().unwrap_or_else(|| Line::boxed(LINE));
    line.clear();
    write(&mut line);
    output::write(line.bytes());
    place.set(Some(line));
}

pub fn posted(event: &Posted<'_>) {
    match settings::get().format {
        Format::Text => emit(|line| text::posted(line, event)),
        Format::Json => emit(|line| json::posted(line, event)),
        // Drawn when it completes; a refused one never does.
        Format::Perfetto => {
            if event.serial.is_none() {
                emit(|line| perfetto::refused(line, event));
            }
        }
    }
}

pub fn completed(event: &Completed<'_>, lanes: Option<&mut Lanes>) {
    match settings::get().format {
        Format::Text => emit(|line| text::completed(line, event)),
        Format::Json => emit(|line| json::completed(line, event)),
        Format::Perfetto => emit(|line| perfetto::completed(line, event, lanes)),
    }
}

pub fn called(event: &Called<'_>) {
    match settings::get().format {
        Format::Text => emit(|line| text::called(line, event)),
        Format::Json => emit(|line| json::called(line, event)),
        Format::Perfetto => emit(|line| perfetto::called(line, event)),
    }
}
