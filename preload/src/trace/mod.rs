// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace: each event becomes a line. Payload is never read.

mod json;
mod perfetto;
mod text;

use rdma_verbs_settings::Format;

pub use perfetto::{finish, forget, start};

use crate::event::{Called, Completed, Event, Posted};
use crate::lanes::Lanes;
use crate::output::{self, Buffer};
use crate::settings;
use crate::thread;

/// A line of the trace.
type Line = Buffer<Box<[u8]>>;

/// A long list of buffers has its place.
const LINE: usize = 4096;

/// Writes a line, in the thread's own memory: its stack may be too small.
fn emit(write: impl FnOnce(&mut Line)) {
    let place = &thread::own().line;
    let mut line = place.take().unwrap_or_else(|| Line::boxed(LINE));
    line.clear();
    write(&mut line);
    output::write(line.bytes());
    place.set(Some(line));
}

/// Writes what happened.
pub fn on(event: &Event<'_>) {
    match event {
        Event::Posted(event) => posted(event),
        Event::Called(event) => called(event),
        _ => {}
    }
}

fn posted(event: &Posted<'_>) {
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

/// Writes a completion.
pub fn completed(event: &Completed<'_>, lanes: Option<&mut Lanes>) {
    match settings::get().format {
        Format::Text => emit(|line| text::completed(line, event)),
        Format::Json => emit(|line| json::completed(line, event)),
        Format::Perfetto => emit(|line| perfetto::completed(line, event, lanes)),
    }
}

fn called(event: &Called<'_>) {
    match settings::get().format {
        Format::Text => emit(|line| text::called(line, event)),
        Format::Json => emit(|line| json::called(line, event)),
        Format::Perfetto => emit(|line| perfetto::called(line, event)),
    }
}
