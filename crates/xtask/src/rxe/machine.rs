//! QEMU and the output of the guest.

use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time after which a guest is stuck, seconds. `FARWOOD_RXE_SECONDS` raises it for loaded machines.
const SECONDS_MAX: u64 = 1_200;
/// Memory of the guest, MiB: two memory nodes of 64, their clients, and the cache of the host's files.
const MEMORY: &str = "1024";
/// A processor with all features except fast string copies: with them Linux copies by one instruction, which QEMU
/// executes byte by byte, so that words of a packet are torn.
const PROCESSOR: &str = "max,-erms,-fsrm";
/// The prefix of a guest's last line, before its exit status.
const END: &str = "farwood-rxe: exit ";
/// A line that a guest prints every few seconds while its kernel runs processes.
const ALIVE: &str = "farwood-rxe: alive";
/// Seconds without output after which a guest's kernel is stuck. The cause is unknown; one suspect is that Soft-RoCE,
/// when it destroys a queue pair, busy-waits for its tasks on one processor without preemption.
const SILENCE_MAX: u64 = 90;
/// Largest number of further boots of a stuck guest.
const AGAIN_MAX: u32 = 2;

/// The outcome of a guest.
enum Outcome {
    /// The program in the guest ended with this exit status.
    Ended(u8),
    /// The guest printed nothing for [`SILENCE_MAX`] seconds: its kernel is stuck.
    Silent,
}

/// The processors of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// One, with a kernel without preemption: Soft-RoCE's copies do not interleave.
    One,
    /// Two, with a preemptive kernel: copies interleave, and READs may be torn.
    Two,
}

impl Processors {
    /// The number of processors.
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
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the kernel and prints the output of the guest; yields its exit status. A kernel that gets stuck is booted
/// again, with a message.
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
                // A closed output is not an error.
                let _ = writeln!(out, "farwood-rxe: the guest's kernel is stuck; it is booted again");
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
                // A closed output is not an error.
                let _ = writeln!(out, "{line}");
                last = line;
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => return Ok(Outcome::Silent),
            Err(timeout_or_end) => {
                let what = match timeout_or_end {
                    RecvTimeoutError::Timeout => format!("has not ended within {seconds} s"),
                    RecvTimeoutError::Disconnected => "ended without an exit status".to_owned(),
                };
                return Err(format!("the guest with {count} processors {what}; its last line: {last}"));
            }
        }
    }
}
