// SPDX-License-Identifier: MIT OR Apache-2.0
//! `read-client [--wrong-rkey] ADDRESS PORT`
//!
//! Reads the memory that `read_server` offers and verifies it. The exit status is 0 only if
//! every byte is correct.

mod verbs;

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use verbs::{Connection, Region, while_doing};

/// The server's messages, in network byte order: address, length, rkey, 0; then FNV-1a.
const REGION: Range<usize> = 0..24;
const CHECKSUM: Range<usize> = 24..32;
const LENGTH_MAX: usize = 1 << 30;
/// Every port allows this much per read.
const PIECE: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// The server's memory, from its message.
struct Offer {
    addr: u64,
    length: usize,
    rkey: u32,
    checksum: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (host, port, wrong_rkey) = match words[..] {
        ["--wrong-rkey", host, port] => (host, port, true),
        [host, port] => (host, port, false),
        _ => {
            eprintln!("usage: read-client [--wrong-rkey] ADDRESS PORT");
            return ExitCode::from(2);
        }
    };
    match fetch(host, port, wrong_rkey) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fetch(host: &str, port: &str, wrong_rkey: bool) -> io::Result<()> {
    let connection = Connection::new(host, port, 1, 2)?;
    let machine = fs::read_to_string("/proc/sys/kernel/hostname")?;
    println!(
        "client: device {} port {} on {}",
        connection.device_name(),
        connection.port_num(),
        machine.trim_end()
    );
    let mut offer = receive_offer(&connection)?;
    if wrong_rkey {
        offer.rkey ^= 0xff;
    }
    let data = read(&connection, &offer)?;
    verify(&data, offer.checksum)
}

/// Connects and receives both messages. A message that finds no receive is rejected, so
/// receives are posted before connecting.
fn receive_offer(connection: &Connection) -> io::Result<Offer> {
    let inbox = Region::new(connection, CHECKSUM.end)?;
    connection.post_recv(&inbox, REGION)?;
    connection.post_recv(&inbox, CHECKSUM)?;
    connection.connect()?;
    receive(connection, "receive of the region", REGION)?;
    receive(connection, "receive of the checksum", CHECKSUM)?;
    let offer = parse(&inbox.into_bytes()?)
        .ok_or_else(|| io::Error::other("receive of the region: a bad length"))?;
    println!(
        "client: region {:#x}, {} bytes, rkey {:#010x}",
        offer.addr, offer.length, offer.rkey
    );
    Ok(offer)
}

fn receive(connection: &Connection, what: &str, message: Range<usize>) -> io::Result<()> {
    let length = connection.await_recv(LIMIT).map_err(while_doing(what))?;
    if length as usize == message.len() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{what}: the message has a wrong length"
        )))
    }
}

/// None if the length is not from 1 to `LENGTH_MAX`.
fn parse(messages: &[u8]) -> Option<Offer> {
    let (addr, rest) = messages.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (rkey, _) = rest.split_first_chunk()?;
    let checksum = messages.last_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    (1..=LENGTH_MAX).contains(&length).then_some(Offer {
        addr: u64::from_be_bytes(*addr),
        length,
        rkey: u32::from_be_bytes(*rkey),
        checksum: u64::from_be_bytes(*checksum),
    })
}

/// Reads the pieces one after the other.
fn read(connection: &Connection, offer: &Offer) -> io::Result<Vec<u8>> {
    let target = Region::new(connection, offer.length)?;
    let started = Instant::now();
    let mut reads = 0;
    for start in (0..offer.length).step_by(PIECE) {
        let part = start..offer.length.min(start + PIECE);
        connection.post_read(&target, part, offer.addr + start as u64, offer.rkey)?;
        connection
            .await_send(LIMIT)
            .map_err(while_doing("RDMA read"))?;
        reads += 1;
    }
    let us = started.elapsed().as_secs_f64() * 1e6;
    println!(
        "client: read {} bytes in {us:.0} us ({:.1} MB/s), RDMA reads: {reads}",
        offer.length,
        offer.length as f64 / us
    );
    target.into_bytes()
}

/// FNV-1a, 64 bit: any changed byte changes the result.
fn fnv1a(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn verify(data: &[u8], expected: u64) -> io::Result<()> {
    let actual = fnv1a(data);
    if actual != expected {
        return Err(io::Error::other(format!(
            "NOT verified: FNV-1a of the data is {actual:016x}, the server's is {expected:016x}"
        )));
    }
    println!("client: verified, FNV-1a of the data {actual:016x} is the server's");
    Ok(())
}
