//! `fuzz-edge ADDRESS KEY PID SECONDS SEED`: sends mutated byte streams to a running ingress, and checks that
//! it survives, never answers with 5xx, and does not grow in memory. `scripts/fuzz edge` runs it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line")]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use millstream_fuzz::edge::{EdgeInputs, is_server_error, send_input};

const THREADS: u64 = 8;
/// Maximum growth of the resident memory between a tenth of the run and its end.
const GROWTH_KIB: u64 = 64 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((address, key, pid, seconds, seed)) = parse(&arguments) else {
        eprintln!("usage: fuzz-edge ADDRESS KEY PID SECONDS SEED");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let throwers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let inputs = EdgeInputs::seeded(seed.wrapping_mul(THREADS).wrapping_add(thread), &key);
            thread::spawn(move || throw_until(address, inputs, begun + Duration::from_secs(seconds)))
        })
        .collect();
    thread::sleep(Duration::from_secs(seconds.div_ceil(10)));
    let before = resident_kib(pid);
    let mut thrown = 0;
    let mut failed = Vec::new();
    for thrower in throwers {
        let Ok((count, wrong)) = thrower.join() else { return ExitCode::FAILURE };
        thrown += count;
        failed.extend(wrong);
    }
    let (after, alive) = (resident_kib(pid), is_alive(address));
    println!(
        "seed {seed}: {thrown} byte streams, memory {before:?} -> {after:?} KiB, alive: {alive}, failed: {}",
        failed.len()
    );
    failed.iter().take(5).for_each(|wrong| println!("{wrong}"));
    let flat = matches!((before, after), (Some(before), Some(after)) if after <= before + GROWTH_KIB);
    if failed.is_empty() && alive && flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Option<(SocketAddr, String, u32, u64, u64)> {
    let [address, key, pid, seconds, seed] = arguments else { return None };
    Some((address.parse().ok()?, key.clone(), pid.parse().ok()?, seconds.parse().ok()?, seed.parse().ok()?))
}

fn throw_until(address: SocketAddr, mut inputs: EdgeInputs, end: Instant) -> (u64, Vec<String>) {
    let (mut thrown, mut failed) = (0, Vec::new());
    while Instant::now() < end && failed.len() < 10 {
        let input = inputs.next_input();
        match send_input(address, &input) {
            Ok(answer) if is_server_error(&answer) => {
                let (input, answer) = (String::from_utf8_lossy(&input), String::from_utf8_lossy(&answer));
                failed.push(format!("--- {input:?}\nwas answered {answer:?}"));
            }
            Ok(_) => {}
            Err(error) => failed.push(format!("the ingress takes no connection: {error}")),
        }
        thrown += 1;
    }
    (thrown, failed)
}

fn is_alive(address: SocketAddr) -> bool {
    let answer = send_input(address, b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    answer.is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
}

fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
