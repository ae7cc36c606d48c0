//! The RDMA device at a memory node: it executes verbs in the node's memory, in place of the node's threads.
//!
//! Host memory is registered as a whole, without the header page and the fences after it, which no verb may access.
//! Device memory is the device's own if that is large enough; otherwise it is host memory after the other host memory
//! ([`NodeRegions::device_on_card`] states which).
//!
//! A thread sleeps until there are immediates. It keeps one receive posted for each free entry of the server's queue.
//! To a further WRITE_WITH_IMM the device answers "not ready", and the sender's device retries.

use super::abi::sys::Wc;
use super::abi::sys::numbers::{LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, WC_RECV_IMM};
use super::device::{Device, DeviceMemoryLocation};
use super::error::with_remedy;
use super::queue::sys::{Channel, Completions, QueuePair, QueuePairSpec, Receives, TAKEN_MAX};
use super::queue::{Endpoint, random_psn};
use super::region::NodeRegions;
use super::sys::Region;
use crate::daemon::verb_executor::{ExecutorQueuePair, ImmediateQueue, NodeMemory, VerbExecutor};
use crate::error::TcpError;
use farwood_fabric::ByteCount;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const ACCESS: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC;
/// Immediates that may wait for the server.
const RECEIVES_MAX: u32 = 4096;
/// The time for which the thread sleeps before it checks whether it must stop.
const WAIT: Duration = Duration::from_millis(50);
/// Longest wait while receives are withheld because the server's queue is full.
const WAIT_WITHHELD: Duration = Duration::from_millis(1);

/// The thread that waits for immediates; yields the reason why it ended.
type CompletionThreadHandle = JoinHandle<io::Result<()>>;

/// A memory node's device.
#[derive(Debug)]
pub(super) struct Target {
    device: Arc<Device>,
    words: NodeRegions,
    location: DeviceMemoryLocation,
    intake: Arc<ImmediateIntake>,
    /// Host memory and device memory, registered as long as queue pairs exist.
    regions: Mutex<Option<[Region; 2]>>,
    stopping: Arc<AtomicBool>,
    listener: Mutex<Option<CompletionThreadHandle>>,
}

impl Target {
    /// Registers a memory node's memory with the device, and starts to wait for immediates.
    pub(super) fn attach(device: &Arc<Device>, memory: NodeMemory) -> Result<Self, TcpError> {
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
        // A device without device memory, or with too little, is not an error.
        let (device_memory, why_on_host) = match Region::of_card(domain, device_bytes, ACCESS) {
            Ok(region) => (region, None),
            Err(error) => {
                let region = Region::of_host(domain, &mapping, host_bytes, device_bytes, ACCESS)
                    .map_err(failed("register the device memory"))?;
                (region, Some(why_on_host(device.limits.device_memory, device_bytes, &error)))
            }
        };
        let location = DeviceMemoryLocation { bytes: device_bytes, why_on_host };
        let receives_max = RECEIVES_MAX.min(device.limits.receives_max).min(device.limits.completions_max);
        let queues = failed("make queues");
        let channel = Channel::new(&device.context).map_err(queues)?;
        let completions = Completions::new(&device.context, receives_max, Some(&channel)).map_err(queues)?;
        let receives = Receives::new(domain, receives_max).map_err(queues)?;
        let words = NodeRegions {
            host: (host.base(), host.remote_key()),
            device: (device_memory.base(), device_memory.remote_key()),
            device_on_card: device_memory.is_on_card(),
            kind: device.kind,
            single_processor: has_one_processor(),
            masked_cas: device.masked_cas,
            mtu: device.mtu,
            link: device.link,
            of_card: device.limits.device_memory,
        };
        let posted = Mutex::new(0);
        let intake = Arc::new(ImmediateIntake { completions, receives, immediates, receives_max, posted });
        intake.refill().map_err(queues)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let listener =
            CompletionThread { channel, intake: Arc::clone(&intake), stopping: Arc::clone(&stopping) };
        let thread = std::thread::Builder::new().name("farwood-rdma".to_owned());
        let listener = thread.spawn(move || listener.run()).map_err(failed("start a thread"))?;
        Ok(Self {
            device: Arc::clone(device),
            words,
            location,
            intake,
            regions: Mutex::new(Some([host, device_memory])),
            stopping,
            listener: Mutex::new(Some(listener)),
        })
    }
}

impl Target {
    /// Returns the location of the memory node's device memory.
    pub(super) fn location(&self) -> &DeviceMemoryLocation {
        &self.location
    }

    fn listener(&self) -> MutexGuard<'_, Option<CompletionThreadHandle>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns why device memory is not the device's own.
fn why_on_host(of_card: u64, wanted: u64, error: &io::Error) -> String {
    match of_card {
        0 => "the device has none".to_owned(),
        bytes if bytes < wanted => {
            format!("the device has {}; omit --device-memory, or give at most that", ByteCount(bytes))
        }
        _ => format!("the device does not allocate it: {error}"),
    }
}

/// Returns whether the machine has one processor, even if this process may not use all.
fn has_one_processor() -> bool {
    std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|online| online.trim() == "0")
}

impl VerbExecutor for Target {
    fn region(&self) -> [u64; 4] {
        self.words.words()
    }

    fn connect(&self, other: [u64; 4]) -> Result<(Box<dyn ExecutorQueuePair>, [u64; 4]), String> {
        let other = Endpoint::from_words(other).ok_or("the words do not describe a queue pair")?;
        let reads = self.device.limits.reads_in_max.max(1);
        let make = || {
            let pair = QueuePair::new(&QueuePairSpec {
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
        let pair =
            make().map_err(|error| format!("the memory node's device makes no queue pair: {error}"))?;
        let endpoint = pair.endpoint(&self.device, random_psn(), reads);
        let queue = TargetQueue { pair: Some(pair), intake: Arc::clone(&self.intake) };
        Ok((Box::new(queue), endpoint.words()))
    }

    fn failed(&self) -> Option<String> {
        let ended = self.listener().take_if(|listener| listener.is_finished())?;
        Some(match ended.join() {
            Ok(Err(error)) => format!("its completions cannot be waited for: {error}"),
            Ok(Ok(())) => "its thread received a stop request".to_owned(),
            Err(_) => "its thread panicked".to_owned(),
        })
    }

    fn end(&self) {
        if !self.device.context.handle.is_own() {
            // A forked child does not have the thread.
            std::mem::forget(self.listener().take());
            return;
        }
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener().take() {
            // If the thread panicked, it has ended already.
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

/// A queue pair that receives a compute node's requests.
#[derive(Debug)]
struct TargetQueue {
    /// `None`: it has ended.
    pair: Option<QueuePair>,
    intake: Arc<ImmediateIntake>,
}

impl ExecutorQueuePair for TargetQueue {
    fn end(&mut self) -> Result<(), String> {
        let Some(pair) = self.pair.take() else { return Ok(()) };
        // Immediates that were acknowledged to the client must arrive. An error here also fails the
        // completion thread.
        let ended = pair.end(|| drop(self.intake.drain()));
        ended.map_err(|(pair, error)| {
            self.pair = Some(pair);
            error.to_string()
        })
    }
}

/// The receives, and the immediates that arrive in them. Shared by the completion thread and by threads that
/// end a queue pair.
#[derive(Debug)]
struct ImmediateIntake {
    completions: Arc<Completions>,
    receives: Arc<Receives>,
    immediates: Arc<ImmediateQueue>,
    receives_max: u32,
    /// Posted receives. Completions are taken under this lock, so immediates stay in order.
    posted: Mutex<u32>,
}

impl ImmediateIntake {
    fn posted(&self) -> MutexGuard<'_, u32> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves immediates to the server's queue. False: there were none.
    fn drain(&self) -> io::Result<bool> {
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

    /// Posts receives for the free space of the server's queue. True: some are withheld.
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
struct CompletionThread {
    channel: Arc<Channel>,
    intake: Arc<ImmediateIntake>,
    stopping: Arc<AtomicBool>,
}

impl CompletionThread {
    /// Runs until `stopping` is set, or until a step fails.
    fn run(&self) -> io::Result<()> {
        while !self.stopping.load(Ordering::SeqCst) {
            self.step()?;
        }
        Ok(())
    }

    /// Processes the immediates that have arrived, or sleeps until one arrives.
    fn step(&self) -> io::Result<()> {
        // The queue is armed before the poll, so that a completion after the poll raises an event.
        self.intake.completions.arm()?;
        let taken = self.intake.drain()?;
        let withheld = self.intake.refill()?;
        if !taken {
            self.channel.wait(if withheld { WAIT_WITHHELD } else { WAIT })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_locks_in_host_memory_is_reported() {
        let error = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(why_on_host(0, 256 << 10, &error), "the device has none");
        assert!(why_on_host(128 << 10, 256 << 10, &error).contains("128 KiB"));
        assert!(why_on_host(256 << 10, 256 << 10, &error).contains("denied"), "the system's own words");
    }
}
