// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines for people.

use std::fmt::{Result, Write};

use rdma_verbs_bindings::{IBV_WC_SUCCESS, ibv_sge};

use super::Line;
use crate::clock;
use crate::event::{Called, Completed, Fields, Outcome, Posted, Value};
use crate::names::{
    Address, Code, Duration, access_name, completion_name, send_flags, status_name,
};
use crate::operation::Operation;
use crate::request::Request;
use crate::thread;

fn prefix(line: &mut Line, at: u64) -> Result {
    let (hours, minutes, seconds, micros) = clock::local(at);
    write!(line, "{hours:02}:{minutes:02}:{seconds:02}.{micros:06} ")?;
    let (process, thread) = thread::ids();
    if process == thread {
        write!(line, "[{process}] ")
    } else {
        write!(line, "[{process}/{thread}] ")
    }
}

pub fn posted(line: &mut Line, event: &Posted<'_>) {
    let _ = prefix(line, event.at);
    let _ = posted_text(line, event);
    line.end_line();
}

fn posted_text(line: &mut Line, event: &Posted<'_>) -> Result {
    let request = event.request;
    write!(
        line,
        "{}({}, context {:#x}",
        event.helper, event.queue, request.wr_id
    )?;
    if !event.helper.name().starts_with("rdma_") {
        write!(line, ", {}", request.operation.name())?;
        if request.operation == Operation::Other {
            write!(line, " {}", request.opcode)?;
        }
    }
    buffers(line, request)?;
    if request.operation != Operation::Receive {
        write!(line, ", {}", send_flags(request.flags))?;
    }
    match request.operation {
        Operation::SendImm | Operation::WriteImm => {
            write!(line, ", imm {:#x}", u32::from_be(request.immediate))?;
        }
        Operation::SendInv | Operation::LocalInv => {
            write!(line, ", invalidate {:#x}", request.immediate)?;
        }
        _ => {}
    }
    if request.operation.is_remote() {
        write!(
            line,
            ", remote {:#x}, rkey {:#x}",
            request.remote_addr, request.rkey
        )?;
    }
    match request.operation {
        Operation::CompareSwap => {
            write!(
                line,
                ", compare {:#x}, swap {:#x}",
                request.compare_add, request.swap
            )?;
        }
        Operation::FetchAdd => write!(line, ", add {:#x}", request.compare_add)?,
        _ => {}
    }
    if request.ah != 0 {
        write!(
            line,
            ", ah {:#x}, remote qp {:#x}",
            request.ah, request.remote_qpn
        )?;
    }
    line.write_str(")")?;
    if let Some(result) = event.result {
        write!(line, " = {}", Code(result))?;
    }
    match event.serial {
        Some(serial) => write!(line, "  #{serial}"),
        None => Ok(()),
    }
}

fn buffers(line: &mut Line, request: &Request<'_>) -> Result {
    match request.buffers {
        [] if request.inline_length > 0 => write!(line, ", {} inline", request.inline_length),
        [] if request.count > 0 => write!(line, ", {} buffers", request.count),
        [] => Ok(()),
        [one] => {
            line.write_str(", ")?;
            buffer(line, one)
        }
        several => {
            for (index, one) in several.iter().enumerate() {
                line.write_str(if index == 0 { ", [{" } else { ", {" })?;
                buffer(line, one)?;
                line.write_str("}")?;
            }
            line.write_str("]")
        }
    }
}

fn buffer(line: &mut Line, one: &ibv_sge) -> Result {
    write!(
        line,
        "addr {:#x}, {}, lkey {:#x}",
        one.addr, one.length, one.lkey
    )
}

pub fn completed(line: &mut Line, event: &Completed<'_>) {
    let _ = prefix(line, event.at);
    let _ = completed_text(line, event);
    line.end_line();
}

fn completed_text(line: &mut Line, event: &Completed<'_>) -> Result {
    write!(
        line,
        "completion({}, context {:#x}",
        event.queue, event.completion.wr_id
    )?;
    if event.completion.status == IBV_WC_SUCCESS {
        write!(line, ", {}", completion_name(event.completion.opcode))?;
        if let (true, Some(bytes)) = (event.is_receive, event.completion.bytes) {
            write!(line, ", {bytes} bytes")?;
        }
        if let Some(immediate) = event.completion.immediate {
            write!(line, ", imm {:#x}", u32::from_be(immediate))?;
        }
    }
    write!(line, ", {}", status_name(event.completion.status))?;
    if event.completion.vendor_error != 0 && event.completion.status != IBV_WC_SUCCESS {
        write!(line, ", vendor error {:#x}", event.completion.vendor_error)?;
    }
    line.write_str(")")?;
    match event.request {
        Some(request) => write!(
            line,
            " of {} #{} after {}",
            request.helper,
            request.serial,
            Duration(event.at.saturating_sub(request.at))
        ),
        None => line.write_str(" of a request that was not seen"),
    }
}

pub fn called(line: &mut Line, event: &Called<'_>) {
    // Calls are written when they return, after what they called.
    let _ = prefix(line, event.to);
    let _ = called_text(line, event);
    line.end_line();
}

fn called_text(line: &mut Line, event: &Called<'_>) -> Result {
    write!(line, "{}(", event.name)?;
    fields(line, event.arguments)?;
    line.write_str(")")?;
    match event.outcome {
        Outcome::Nothing => {}
        Outcome::Code(code) => write!(line, " = {}", Code(code))?,
        Outcome::Errno(0, _) => line.write_str(" = 0")?,
        Outcome::Errno(code, errno) => write!(line, " = {code}, errno {}", Code(errno))?,
        Outcome::Object(0, errno) => write!(line, " = NULL, errno {}", Code(errno))?,
        Outcome::Object(object, _) => write!(line, " = {object:#x}")?,
        Outcome::Detailed(object, details) => {
            write!(line, " = {object:#x}, ")?;
            fields(line, details)?;
        }
        Outcome::Got(details) => {
            line.write_str(" = 0, ")?;
            fields(line, details)?;
        }
    }
    write!(
        line,
        "  <{}>",
        Duration(event.to.saturating_sub(event.from))
    )
}

fn fields(line: &mut Line, fields: Fields<'_>) -> Result {
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            line.write_str(", ")?;
        }
        write!(line, "{name} ")?;
        match *value {
            Value::Pointer(0) => line.write_str("NULL")?,
            Value::Pointer(address) => write!(line, "{address:#x}")?,
            Value::Hex(number) => write!(line, "{number:#x}")?,
            Value::Number(number) => write!(line, "{number}")?,
            Value::Size(u64::MAX) => line.write_str("SIZE_MAX")?,
            Value::Size(size) => write!(line, "{size}")?,
            Value::Text(text) => line.write_str(text)?,
            Value::Access(access) => write!(line, "{}", access_name(access))?,
            Value::Address(address) => write!(line, "{}", Address(address))?,
        }
    }
    Ok(())
}
