// SPDX-License-Identifier: MIT OR Apache-2.0
//! A JSON object on each line. Times are nanoseconds of CLOCK_MONOTONIC.

use std::fmt::{Display, Result, Write};

use rdma_verbs_bindings::IBV_WC_SUCCESS;

use super::Line;
use crate::event::{Called, Completed, Fields, Outcome, Posted, Queue, Value};
use crate::names::{Address, access_name, completion_name, send_flags, status_name};
use crate::operation::Operation;
use crate::thread;

/// Text as a JSON string; only what is between the quotes.
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> Result {
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(out, "\\{character}")?,
                '\0'..=' ' if character != ' ' => write!(out, "\\u{:04x}", character as u32)?,
                _ => out.write_char(character)?,
            }
        }
        Ok(())
    }
}

fn prefix(line: &mut Line, event: &str, at: u64) -> Result {
    let (process, thread) = thread::ids();
    write!(
        line,
        "{{\"event\":\"{event}\",\"ns\":{at},\"pid\":{process},\"tid\":{thread}"
    )
}

fn queue(line: &mut Line, queue: Queue) -> Result {
    match queue {
        Queue::Pair(number) => write!(line, ",\"qp\":{number}"),
        Queue::Shared(address) => write!(line, ",\"srq\":\"{address:#x}\""),
    }
}

/// Closes the object; a line that was too long is replaced by what a parser can read.
fn end(line: &mut Line) {
    let _ = line.write_str("}\n");
    if line.is_cut() {
        line.clear();
        let _ = line.write_str("{\"event\":\"too long\"}\n");
    }
}

pub fn posted(line: &mut Line, event: &Posted<'_>) {
    let _ = posted_text(line, event);
    end(line);
}

fn posted_text(line: &mut Line, event: &Posted<'_>) -> Result {
    let request = event.request;
    prefix(line, "post", event.at)?;
    queue(line, event.queue)?;
    write!(
        line,
        ",\"helper\":\"{}\",\"operation\":\"{}\",\"context\":\"{:#x}\",\"bytes\":{},\"buffers\":[",
        event.helper,
        request.operation.name(),
        request.wr_id,
        event.bytes
    )?;
    for (index, one) in request.buffers.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(
            line,
            "{comma}{{\"addr\":\"{:#x}\",\"length\":{},\"lkey\":\"{:#x}\"}}",
            one.addr, one.length, one.lkey
        )?;
    }
    line.write_str("]")?;
    if request.operation != Operation::Receive {
        write!(line, ",\"flags\":\"{}\"", send_flags(request.flags))?;
    }
    match request.operation {
        Operation::SendImm | Operation::WriteImm => {
            write!(line, ",\"imm\":{}", u32::from_be(request.immediate))?;
        }
        Operation::SendInv | Operation::LocalInv => {
            write!(line, ",\"invalidate\":\"{:#x}\"", request.immediate)?;
        }
        Operation::CompareSwap => {
            write!(
                line,
                ",\"compare\":{},\"swap\":{}",
                request.compare_add, request.swap
            )?;
        }
        Operation::FetchAdd => write!(line, ",\"add\":{}", request.compare_add)?,
        _ => {}
    }
    if request.operation.is_remote() {
        write!(
            line,
            ",\"remote_addr\":\"{:#x}\",\"rkey\":\"{:#x}\"",
            request.remote_addr, request.rkey
        )?;
    }
    if request.ah != 0 {
        write!(
            line,
            ",\"ah\":\"{:#x}\",\"remote_qp\":{}",
            request.ah, request.remote_qpn
        )?;
    }
    if let Some(result) = event.result {
        write!(line, ",\"result\":{result}")?;
    }
    match event.serial {
        Some(serial) => write!(line, ",\"serial\":{serial}"),
        None => Ok(()),
    }
}

pub fn completed(line: &mut Line, event: &Completed<'_>) {
    let _ = completed_text(line, event);
    end(line);
}

fn completed_text(line: &mut Line, event: &Completed<'_>) -> Result {
    prefix(line, "completion", event.at)?;
    queue(line, event.queue)?;
    write!(
        line,
        ",\"context\":\"{:#x}\",\"status\":\"{}\",\"side\":\"{}\"",
        event.completion.wr_id,
        status_name(event.completion.status),
        if event.is_receive { "receive" } else { "send" }
    )?;
    if event.completion.status == IBV_WC_SUCCESS {
        write!(
            line,
            ",\"operation\":\"{}\"",
            completion_name(event.completion.opcode)
        )?;
        if let Some(bytes) = event.completion.bytes.filter(|_| event.is_receive) {
            write!(line, ",\"bytes\":{bytes}")?;
        }
        if let Some(immediate) = event.completion.immediate {
            write!(line, ",\"imm\":{}", u32::from_be(immediate))?;
        }
    } else {
        write!(line, ",\"vendor_error\":{}", event.completion.vendor_error)?;
    }
    match event.request {
        Some(request) => write!(
            line,
            ",\"helper\":\"{}\",\"serial\":{},\"latency_ns\":{}",
            request.helper,
            request.serial,
            event.at.saturating_sub(request.at)
        ),
        None => Ok(()),
    }
}

pub fn called(line: &mut Line, event: &Called<'_>) {
    let _ = called_text(line, event);
    end(line);
}

fn called_text(line: &mut Line, event: &Called<'_>) -> Result {
    prefix(line, "call", event.from)?;
    let took = event.to.saturating_sub(event.from);
    write!(
        line,
        ",\"name\":\"{}\",\"took_ns\":{took},\"arguments\":",
        event.name
    )?;
    fields(line, event.arguments)?;
    match event.outcome {
        Outcome::Nothing => Ok(()),
        Outcome::Code(code) => write!(line, ",\"result\":{code}"),
        Outcome::Errno(0, _) => line.write_str(",\"result\":0"),
        Outcome::Errno(code, errno) => write!(line, ",\"result\":{code},\"errno\":{errno}"),
        Outcome::Object(0, errno) => write!(line, ",\"result\":null,\"errno\":{errno}"),
        Outcome::Object(object, _) => write!(line, ",\"result\":\"{object:#x}\""),
        Outcome::Detailed(object, details) => {
            write!(line, ",\"result\":\"{object:#x}\",\"details\":")?;
            fields(line, details)
        }
        Outcome::Got(details) => {
            line.write_str(",\"result\":0,\"details\":")?;
            fields(line, details)
        }
    }
}

/// An object with one member for each field.
pub fn fields(line: &mut Line, fields: Fields<'_>) -> Result {
    line.write_str("{")?;
    for (index, (name, value)) in fields.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(line, "{comma}\"{name}\":")?;
        match *value {
            Value::Pointer(0) => line.write_str("null")?,
            Value::Pointer(address) => write!(line, "\"{address:#x}\"")?,
            Value::Hex(number) => write!(line, "\"{number:#x}\"")?,
            Value::Number(number) => write!(line, "{number}")?,
            Value::Size(size) => write!(line, "{size}")?,
            Value::Text(text) => write!(line, "\"{}\"", Escaped(text))?,
            Value::Access(access) => write!(line, "\"{}\"", access_name(access))?,
            Value::Address(address) => write!(line, "\"{}\"", Address(address))?,
        }
    }
    line.write_str("}")
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(Escaped("a\"b\\c\nd é").to_string(), "a\\\"b\\\\c\\u000ad é");
    }
}
