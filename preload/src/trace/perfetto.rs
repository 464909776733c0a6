// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace event format: a JSON array, whose closing bracket is optional, so that a
//! program that was killed leaves a trace that opens.
//!
//! Each request is a slice from its post to its completion. Slices of one row may not
//! overlap; so a queue with several requests in flight has as many rows, called lanes.

use std::fmt::{Result, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rdma_verbs_bindings::IBV_WC_SUCCESS;

use super::json::{Escaped, fields};
use super::{Line, emit};
use crate::event::{Called, Completed, Outcome, Posted, Queue};
use crate::lanes::{FIRST_ROW, Lanes};
use crate::names::{Code, completion_name, status_name};
use crate::output;
use crate::{settings, thread};

/// What this process has written: whether the array can be closed depends on it.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// The beginning of the file, or of what this process adds to it.
pub fn start() {
    emit(start_text);
}

fn start_text(line: &mut Line) {
    if output::length() == Some(0) {
        let _ = line.write_str("[\n");
    }
    let process = thread::process();
    let _ = write!(
        line,
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"args\":{{\"name\":\"{}\"}}}}",
        Escaped(settings::name())
    );
    end(line);
}

/// The child of a fork has written nothing yet, and its rows are its own.
pub fn forget() {
    WRITTEN.store(0, Relaxed);
}

/// Closes the array, if no other process has written to the file.
pub fn finish() {
    if output::length() == Some(WRITTEN.load(Relaxed)) {
        let process = thread::process();
        emit(|line| {
            let _ = writeln!(
                line,
                "{{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":{process},\"args\":{{\"labels\":\"ended\"}}}}]"
            );
        });
    }
}

fn end(line: &mut Line) {
    let _ = line.write_str(",\n");
    if line.is_cut() {
        line.clear();
    }
    WRITTEN.fetch_add(line.bytes().len() as u64, Relaxed);
}

/// Microseconds with three digits after the point.
fn micros(line: &mut Line, name: &str, nanos: u64) -> Result {
    write!(line, ",\"{name}\":{}.{:03}", nanos / 1000, nanos % 1000)
}

pub fn completed(line: &mut Line, event: &Completed<'_>, lanes: Option<&mut Lanes>) {
    let _ = match (event.request, lanes) {
        (Some(request), Some(lanes)) => {
            let from = lanes.begin(request.lane, request.at, event.at);
            name_row(line, event.queue, event.is_receive, lanes, request.lane);
            slice(line, event, from, lanes.row(request.lane))
        }
        _ => unmatched(line, event),
    };
    end(line);
}

fn slice(line: &mut Line, event: &Completed<'_>, from: u64, row: u64) -> Result {
    let Some(request) = event.request else {
        return Ok(());
    };
    let process = thread::process();
    let bytes = event
        .completion
        .bytes
        .filter(|_| event.is_receive)
        .map_or(request.bytes, u64::from);
    let status = status_name(event.completion.status);
    write!(
        line,
        "{{\"ph\":\"X\",\"pid\":{process},\"tid\":{row},\"name\":\"{}",
        request.helper
    )?;
    if event.completion.status == IBV_WC_SUCCESS {
        write!(line, " {bytes}\"")?;
    } else {
        write!(line, " {status}\",\"cname\":\"terrible\"")?;
    }
    micros(line, "ts", from)?;
    micros(line, "dur", event.at.saturating_sub(from))?;
    write!(
        line,
        ",\"args\":{{\"serial\":{},\"context\":\"{:#x}\",\"bytes\":{bytes},\"status\":\"{status}\"}}}}",
        request.serial, event.completion.wr_id
    )
}

fn name_row(line: &mut Line, queue: Queue, is_receive: bool, lanes: &mut Lanes, lane: u8) {
    let bit = 1u64 << (lane & 63);
    if lanes.named & bit != 0 {
        return;
    }
    lanes.named |= bit;
    let row = lanes.row(lane);
    let process = thread::process();
    let side = match queue {
        Queue::Shared(_) => "",
        Queue::Pair(_) if is_receive => " receive",
        Queue::Pair(_) => " send",
    };
    let _ = write!(
        line,
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{row},\"args\":{{\"name\":\"{queue}{side}"
    );
    if lane > 0 {
        let _ = write!(line, " ({})", u32::from(lane) + 1);
    }
    let _ = write!(
        line,
        "\"}}}},\n{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{process},\"tid\":{row},\"args\":{{\"sort_index\":{}}}}},\n",
        row - FIRST_ROW
    );
}

fn instant(line: &mut Line, at: u64) -> Result {
    let (process, thread) = thread::ids();
    write!(
        line,
        "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{process},\"tid\":{thread}"
    )?;
    micros(line, "ts", at)
}

fn unmatched(line: &mut Line, event: &Completed<'_>) -> Result {
    instant(line, event.at)?;
    write!(
        line,
        ",\"name\":\"completion {} {}\",\"args\":{{\"queue\":\"{}\",\"context\":\"{:#x}\"}}}}",
        completion_name(event.completion.opcode),
        status_name(event.completion.status),
        event.queue,
        event.completion.wr_id
    )
}

pub fn refused(line: &mut Line, event: &Posted<'_>) {
    let _ = refused_text(line, event);
    end(line);
}

fn refused_text(line: &mut Line, event: &Posted<'_>) -> Result {
    instant(line, event.at)?;
    write!(
        line,
        ",\"name\":\"{} = {}\",\"args\":{{\"queue\":\"{}\"}}}}",
        event.helper,
        Code(event.result.unwrap_or_default()),
        event.queue
    )
}

pub fn called(line: &mut Line, event: &Called<'_>) {
    let _ = called_text(line, event);
    end(line);
}

fn called_text(line: &mut Line, event: &Called<'_>) -> Result {
    let (process, thread) = thread::ids();
    write!(
        line,
        "{{\"ph\":\"X\",\"pid\":{process},\"tid\":{thread},\"name\":\"{}\"",
        event.name
    )?;
    micros(line, "ts", event.from)?;
    micros(line, "dur", event.to.saturating_sub(event.from))?;
    line.write_str(",\"args\":{\"arguments\":")?;
    fields(line, event.arguments)?;
    match event.outcome {
        Outcome::Errno(code, errno) if code != 0 => write!(line, ",\"errno\":\"{}\"", Code(errno))?,
        Outcome::Code(code) if code != 0 => write!(line, ",\"result\":\"{}\"", Code(code))?,
        Outcome::Detailed(_, details) | Outcome::Got(details) => {
            line.write_str(",\"result\":")?;
            fields(line, details)?;
        }
        _ => {}
    }
    line.write_str("}}")
}
