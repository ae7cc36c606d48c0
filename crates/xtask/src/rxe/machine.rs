//! QEMU, and what the guest says.

use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A guest that has not ended by then is stuck. Tests of a loaded machine take longer: `FARWOOD_RXE_SECONDS`.
const SECONDS_MAX: u64 = 1_200;
/// MiB: two memory nodes of 64, what uses them, and what is read of the host's files.
const MEMORY: &str = "1024";
/// A processor of everything, except that it does not announce that it copies strings of bytes fast: Linux would then
/// copy with one instruction that QEMU carries out byte by byte, and no word of a packet would be whole.
const PROCESSOR: &str = "max,-erms,-fsrm";
/// The last line of a guest that has come to its end, before its exit status.
const END: &str = "farwood-rxe: exit ";
/// What a guest says every few seconds as long as its kernel runs processes.
const ALIVE: &str = "farwood-rxe: alive";
/// Seconds without a word after which a guest's kernel is stuck: it runs no process any more. Why is not known; it
/// may be that Soft-RoCE, where a queue pair is destroyed, waits for its tasks without letting them run, on one
/// processor that is not preempted.
const SILENCE_MAX: u64 = 90;
/// Guests that are booted in place of such a one, at most.
const AGAIN_MAX: u32 = 2;

/// What became of a guest.
enum Outcome {
    /// It has come to its end.
    Ended(u8),
    /// Its kernel runs nothing any more.
    Silent,
}

/// What the guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// One, whose kernel does not preempt itself: Soft-RoCE's copies come one after the other.
    One,
    /// Two, whose kernel does: they meet, and nothing about tearing is promised.
    Two,
}

impl Processors {
    /// How many.
    pub(super) fn count(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// Ends the guest when dropped.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the kernel and passes on what the guest says; yields its exit status. Where the kernel gets stuck, it is
/// booted again, and the output says so.
pub(super) fn boot(
    image: &Path,
    initramfs: &Path,
    processors: Processors,
    out: &mut dyn Write,
) -> Result<u8, String> {
    for _ in 0..=AGAIN_MAX {
        match boot_once(image, initramfs, processors, out)? {
            Outcome::Ended(status) => return Ok(status),
            Outcome::Silent => {
                // Nobody may read it.
                let _ = writeln!(
                    out,
                    "farwood-rxe: the guest's kernel runs nothing any more; it is booted again"
                );
            }
        }
    }
    Err(format!("the kernel of the guest with {} processors got stuck each time", processors.count()))
}

fn boot_once(
    image: &Path,
    initramfs: &Path,
    processors: Processors,
    out: &mut dyn Write,
) -> Result<Outcome, String> {
    let mut command = Command::new("qemu-system-x86_64");
    let preempt = match processors {
        Processors::One => "voluntary",
        Processors::Two => "full",
    };
    let count = processors.count().to_string();
    command.args(["-machine", "q35", "-accel", "tcg", "-cpu", PROCESSOR, "-smp", &count, "-m", MEMORY]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]);
    command.arg("-kernel").arg(image).arg("-initrd").arg(initramfs);
    let line = format!("console=ttyS0 quiet panic=-1 oops=panic preempt={preempt}");
    command.args(["-append", &line]);
    command.args(["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"]);
    command.args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut guest = Guest(child.map_err(|error| format!("qemu-system-x86_64: {error}"))?);
    let said = guest.0.stdout.take().expect("its output is piped");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let asked = std::env::var("FARWOOD_RXE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = asked.unwrap_or(SECONDS_MAX);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut last = "nothing".to_owned();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left.min(Duration::from_secs(SILENCE_MAX))) {
            Ok(mut line) => {
                if line.ends_with(ALIVE) {
                    line.truncate(line.len() - ALIVE.len());
                    if line.is_empty() {
                        continue;
                    }
                }
                if let Some(status) = line.strip_prefix(END) {
                    let status = status.parse().map_err(|_| format!("the guest ends with '{status}'"));
                    return status.map(Outcome::Ended);
                }
                // Nobody may read it.
                let _ = writeln!(out, "{line}");
                last = line;
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => return Ok(Outcome::Silent),
            Err(timeout_or_end) => {
                let what = match timeout_or_end {
                    RecvTimeoutError::Timeout => format!("has not ended within {seconds} s"),
                    RecvTimeoutError::Disconnected => "ended before its time".to_owned(),
                };
                return Err(format!("the guest with {count} processors {what}; its last words: {last}"));
            }
        }
    }
}
