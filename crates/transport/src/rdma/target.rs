//! The card at a memory node: it executes verbs in the node's memory, and no thread of the node does.
//!
//! Host memory is registered as a whole, without the papers and fences behind it, which no verb may reach. Device
//! memory is the card's own where it has as much; elsewhere it lies behind the host memory, and
//! [`RegionWords::device_on_card`] says so.
//!
//! A thread sleeps until there are immediates. It keeps as many receives posted as the server's queue has room for; who
//! writes with an immediate beyond that is told "not ready" by the card, and tries again.

use super::abi::sys::Wc;
use super::abi::sys::numbers::{LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, WC_RECV_IMM};
use super::device::{Device, DevicePlace};
use super::error::with_remedy;
use super::queue::sys::{Channel, Completions, Pair, PairSpec, Receives, TAKEN_MAX};
use super::queue::{Endpoint, drawn};
use super::region::RegionWords;
use super::sys::Region;
use crate::daemon::verb_executor::{Card, Immediates, NodeMemory, Queue};
use crate::error::TcpError;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const ACCESS: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC;
/// Immediates that wait for the server.
const RECEIVES_MAX: u32 = 4096;
/// How long the thread sleeps before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// And while receives are withheld, because the server's queue is full.
const LOOK_WITHHELD: Duration = Duration::from_millis(1);

/// The thread that waits for immediates, and why it ended.
type Listening = JoinHandle<io::Result<()>>;

/// A memory node's card.
#[derive(Debug)]
pub(super) struct Target {
    device: Arc<Device>,
    words: RegionWords,
    place: DevicePlace,
    intake: Arc<Intake>,
    /// Host memory and device memory, registered for as long as there is a queue pair.
    regions: Mutex<Option<[Region; 2]>>,
    stopping: Arc<AtomicBool>,
    listener: Mutex<Option<Listening>>,
}

impl Target {
    /// Registers a memory node's memory with the card, and waits for immediates.
    pub(super) fn fit(device: &Arc<Device>, memory: NodeMemory) -> Result<Self, TcpError> {
        let failed = |what: &'static str| {
            move |error: io::Error| {
                let remedy = with_remedy(&error, ", or give the memory node less (--memory)");
                TcpError::Card { why: format!("cannot {what}: {remedy}") }
            }
        };
        let NodeMemory { mapping, host_bytes, device_bytes, immediates } = memory;
        let domain = &device.domain;
        let host = Region::of_host(domain, &mapping, 0, host_bytes, ACCESS)
            .map_err(failed("register the memory"))?;
        // A card without device memory, or without as much, is no failure.
        let (device_memory, why_on_host) = match Region::of_card(domain, device_bytes, ACCESS) {
            Ok(region) => (region, None),
            Err(error) => {
                let region = Region::of_host(domain, &mapping, host_bytes, device_bytes, ACCESS)
                    .map_err(failed("register the memory of the locks"))?;
                (region, Some(why_on_host(device.limits.device_memory, device_bytes, &error)))
            }
        };
        let place = DevicePlace { bytes: device_bytes, why_on_host };
        let receives_max = RECEIVES_MAX.min(device.limits.receives_max).min(device.limits.completions_max);
        let queues = failed("make queues");
        let channel = Channel::new(&device.context).map_err(queues)?;
        let completions = Completions::new(&device.context, receives_max, Some(&channel)).map_err(queues)?;
        let receives = Receives::new(domain, receives_max).map_err(queues)?;
        let words = RegionWords {
            host: (host.base(), host.remote_key()),
            device: (device_memory.base(), device_memory.remote_key()),
            device_on_card: device_memory.is_on_card(),
            kind: device.kind,
            alone: has_one_processor(),
            masked_cas: device.masked_cas,
            mtu: device.mtu,
            link: device.link,
            of_card: device.limits.device_memory,
        };
        let posted = Mutex::new(0);
        let intake = Arc::new(Intake { completions, receives, immediates, receives_max, posted });
        intake.refill().map_err(queues)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let listener = Listener { channel, intake: Arc::clone(&intake), stopping: Arc::clone(&stopping) };
        let thread = std::thread::Builder::new().name("farwood-rdma".to_owned());
        let listener = thread.spawn(move || listener.run()).map_err(failed("start a thread"))?;
        Ok(Self {
            device: Arc::clone(device),
            words,
            place,
            intake,
            regions: Mutex::new(Some([host, device_memory])),
            stopping,
            listener: Mutex::new(Some(listener)),
        })
    }
}

impl Target {
    /// Where the memory node's device memory lies.
    pub(super) fn place(&self) -> &DevicePlace {
        &self.place
    }

    fn listener(&self) -> MutexGuard<'_, Option<Listening>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why device memory is not the card's own.
fn why_on_host(of_card: u64, wanted: u64, error: &io::Error) -> String {
    match of_card {
        0 => "the card has none".to_owned(),
        bytes if bytes < wanted => {
            format!("the card has {bytes} bytes of its own; give no --device-memory, or at most that")
        }
        _ => format!("the card does not give it: {error}"),
    }
}

/// Whether the machine has one processor; not whether this process may use one only.
fn has_one_processor() -> bool {
    std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|online| online.trim() == "0")
}

impl Card for Target {
    fn region(&self) -> [u64; 4] {
        self.words.words()
    }

    fn connect(&self, other: [u64; 4]) -> Result<(Box<dyn Queue>, [u64; 4]), String> {
        let other = Endpoint::from_words(other).ok_or("that describes no queue pair")?;
        let reads = self.device.limits.reads_in_max.max(1);
        let make = || {
            let pair = Pair::new(&PairSpec {
                domain: &self.device.domain,
                sent: &self.intake.completions,
                received: &self.intake.completions,
                receives: Some(&self.intake.receives),
                requests: 1,
                inline: 0,
                masked_cas: false,
            })?;
            pair.receive_from(&self.device, &other, reads)?;
            Ok::<_, io::Error>(pair)
        };
        let pair = make().map_err(|error| format!("the memory node's card makes no queue pair: {error}"))?;
        let endpoint = pair.endpoint(&self.device, drawn(), reads);
        let queue = TargetQueue { pair: Some(pair), intake: Arc::clone(&self.intake) };
        Ok((Box::new(queue), endpoint.words()))
    }

    fn failed(&self) -> Option<String> {
        let ended = self.listener().take_if(|listener| listener.is_finished())?;
        Some(match ended.join() {
            Ok(Err(error)) => format!("its completions cannot be waited for: {error}"),
            Ok(Ok(())) => "its thread was told to stop".to_owned(),
            Err(_) => "its thread panicked".to_owned(),
        })
    }

    fn end(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener().take() {
            // A listener that panicked has nothing to end any more.
            let _ = listener.join();
        }
        *self.regions.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

/// A queue pair that a compute node's requests arrive at.
#[derive(Debug)]
struct TargetQueue {
    /// `None`: it was ended.
    pair: Option<Pair>,
    intake: Arc<Intake>,
}

impl Queue for TargetQueue {
    fn end(&mut self) -> Result<(), String> {
        let Some(pair) = self.pair.take() else { return Ok(()) };
        // What its client was told had arrived must arrive. What fails here fails the listener, too.
        let ended = pair.end(|| drop(self.intake.take_in()));
        ended.map_err(|(pair, error)| {
            self.pair = Some(pair);
            error.to_string()
        })
    }
}

/// Receives, and what arrives in them. For the thread that waits for immediates, and for who ends a queue pair.
#[derive(Debug)]
struct Intake {
    completions: Arc<Completions>,
    receives: Arc<Receives>,
    immediates: Arc<Immediates>,
    receives_max: u32,
    /// Receives that are posted. Under this lock completions are taken, and so immediates in their order.
    posted: Mutex<u32>,
}

impl Intake {
    fn posted(&self) -> MutexGuard<'_, u32> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands immediates to the server. False: there were none.
    fn take_in(&self) -> io::Result<bool> {
        let (mut posted, mut any) = (self.posted(), false);
        let mut completions = [Wc::default(); TAKEN_MAX];
        loop {
            let count = self.completions.poll(&mut completions)?;
            if count == 0 {
                return Ok(any);
            }
            any = true;
            let mut queue = self.immediates.queue();
            for completion in &completions[..count] {
                *posted = posted.saturating_sub(1);
                if completion.status == 0 && completion.opcode == WC_RECV_IMM {
                    queue.push_back(u32::from_be(completion.imm_data));
                }
            }
        }
    }

    /// Posts receives for what the server's queue has room for. True: some are withheld.
    fn refill(&self) -> io::Result<bool> {
        let mut posted = self.posted();
        let waiting = self.immediates.queue().len() as u32;
        let wanted = self.receives_max.saturating_sub(waiting);
        while *posted < wanted {
            self.receives.post()?;
            *posted += 1;
        }
        Ok(waiting > 0)
    }
}

/// The thread that waits for immediates.
struct Listener {
    channel: Arc<Channel>,
    intake: Arc<Intake>,
    stopping: Arc<AtomicBool>,
}

impl Listener {
    /// Works until it is told to stop; yields why it cannot go on.
    fn run(&self) -> io::Result<()> {
        while !self.stopping.load(Ordering::SeqCst) {
            self.turn()?;
        }
        Ok(())
    }

    /// Takes in what has arrived, or sleeps until something does.
    fn turn(&self) -> io::Result<()> {
        // Armed before it is looked at: what arrives after the look makes an event.
        self.intake.completions.arm()?;
        let taken = self.intake.take_in()?;
        let withheld = self.intake.refill()?;
        if !taken {
            self.channel.wait(if withheld { LOOK_WITHHELD } else { LOOK })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_locks_lie_in_host_memory_is_told() {
        let error = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(why_on_host(0, 256 << 10, &error), "the card has none");
        assert!(why_on_host(128 << 10, 256 << 10, &error).contains("131072 bytes"));
        assert!(why_on_host(256 << 10, 256 << 10, &error).contains("denied"), "the system's own words");
    }
}
