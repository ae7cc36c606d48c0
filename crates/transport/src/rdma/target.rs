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
use super::device::{CardKind, Device, DevicePlace, LinkKind, mtu_bytes};
use super::error::with_remedy;
use super::queue::Endpoint;
use super::queue::sys::{Channel, Completions, Pair, PairSpec, Receives, TAKEN_MAX};
use super::sys::Region;
use crate::tcp::TcpError;
use crate::tcp::card::{Card, Immediates, NodeMemory, Queue};
use farwood_fabric::Capabilities;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
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

/// What a compute node must know of a memory node's card, as it goes over the wire.
///
/// # Map
///
/// ```text
/// the answer to `Control::Region`: four words
/// + 0   8   address of host memory, as requests name it
/// + 8   8   address of device memory
/// +16   4   key of host memory
/// +20   4   key of device memory
/// +24   1   1: device memory is the card's own; 2: Soft-RoCE; 4: a memory node with one processor;
///           8: masked compare-and-swap
/// +25   1   MTU, as the verbs count it: 1 to 5 for 256 to 4096 bytes
/// +26   1   link: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
/// +27   1   0
/// +28   4   device memory that the card has, in units of 64 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionWords {
    pub(super) host: (u64, u32),
    pub(super) device: (u64, u32),
    pub(super) device_on_card: bool,
    pub(super) kind: CardKind,
    /// Soft-RoCE on a machine with one processor: no copy is interrupted by another.
    pub(super) alone: bool,
    /// Masked compare-and-swap, which was asked for and tried.
    pub(super) masked_cas: bool,
    /// As the verbs count it.
    pub(super) mtu: u8,
    pub(super) link: LinkKind,
    /// Device memory that the card has, used or not, bytes.
    pub(super) of_card: u64,
}

const MTU_SHIFT: u32 = 8;
const LINK_SHIFT: u32 = 16;
const ZERO_SHIFT: u32 = 24;
const OF_CARD_SHIFT: u32 = 32;
const UNIT_BYTES: u64 = 64;

impl RegionWords {
    fn words(&self) -> [u64; 4] {
        let soft = self.kind == CardKind::SoftRoce;
        let (alone, masked_cas) = (u64::from(self.alone), u64::from(self.masked_cas));
        let flags = u64::from(self.device_on_card) | u64::from(soft) << 1 | alone << 2 | masked_cas << 3;
        let link = u64::from(self.mtu) << MTU_SHIFT | (self.link as u64) << LINK_SHIFT;
        let of_card = (self.of_card / UNIT_BYTES).min(u32::MAX.into()) << OF_CARD_SHIFT;
        let keys = u64::from(self.host.1) | u64::from(self.device.1) << 32;
        [self.host.0, self.device.0, keys, flags | link | of_card]
    }

    /// Reads them back. `None`: this program does not know all that they say.
    pub(super) fn from_words([host, device, keys, card]: [u64; 4]) -> Option<Self> {
        let (flags, mtu) = (card as u8, (card >> MTU_SHIFT) as u8);
        let link = LinkKind::from_byte((card >> LINK_SHIFT) as u8)?;
        let kind = if flags & 2 == 0 { CardKind::Hardware } else { CardKind::SoftRoce };
        let known = flags < 16 && (1..=5).contains(&mtu) && (card >> ZERO_SHIFT) as u8 == 0;
        known.then_some(Self {
            host: (host, keys as u32),
            device: (device, (keys >> 32) as u32),
            device_on_card: flags & 1 != 0,
            kind,
            alone: flags & 4 != 0,
            masked_cas: flags & 8 != 0,
            mtu,
            link,
            of_card: (card >> OF_CARD_SHIFT) * UNIT_BYTES,
        })
    }

    /// Whether packets of `device` reach it. In words: why not.
    pub(super) fn check_link(&self, device: &Device) -> Result<(), String> {
        if self.link == device.link {
            return Ok(());
        }
        Err(format!(
            "its card speaks {}, and {} here speaks {}: they do not understand each other; name a port and a GID of \
             the same kind on both sides (DEVICE,PORT,GID; `ibv_devinfo -v` lists them)",
            self.link, device.name, device.link
        ))
    }

    /// What a memory node with this card promises (`docs/rdma.md` has the table with its sources).
    pub(super) fn capabilities(&self) -> Capabilities {
        // What takes several can be cut in two by the death of its writer. Its client's packets may be smaller still.
        let packet = mtu_bytes(self.mtu) as usize;
        match self.kind {
            CardKind::Hardware => Capabilities {
                version_pair_bytes_max: 1024,
                whole_bytes: 64,
                write_upward: true,
                atomic_then_read: true,
                arrival_sees_write: true,
                write_beside_cas: true,
                masked_cas: self.masked_cas,
                write_survives_writer_bytes_max: packet,
                cpu_sees_write: false,
            },
            // The kernel copies with `memcpy` on any processor: nothing above a word is whole, nor in any order within
            // a packet. With one processor, and a kernel that does not preempt itself, copies of packets come one
            // after the other but for what an interrupt brings in between, which the litmus tests have not seen. That
            // is enough for tests, which is what Soft-RoCE is for; packets of 1 KiB are what Ethernet's frames hold.
            // Its compare-and-swap stores what it found where it fails, and a WRITE by another processor in between is
            // lost: the litmus test sees it on two.
            CardKind::SoftRoce => Capabilities {
                version_pair_bytes_max: if self.alone { 1024 } else { 0 },
                whole_bytes: if self.alone { 64 } else { 8 },
                write_upward: self.alone,
                atomic_then_read: true,
                arrival_sees_write: true,
                write_beside_cas: self.alone,
                masked_cas: false,
                write_survives_writer_bytes_max: packet,
                cpu_sees_write: true,
            },
        }
    }
}

impl RegionWords {
    /// Whether a memory node with this card keeps what its pool promised when it was opened. In words: that not.
    pub(super) fn check_promises(&self, promised: &Capabilities) -> Result<(), String> {
        if weakest(*promised, &self.capabilities()) == *promised {
            return Ok(());
        }
        Err("it came back with a card, or an MTU, that promises less than the pool did; open the pool again"
            .to_owned())
    }
}

/// The weakest of what two memory nodes promise.
pub(super) fn weakest(one: Capabilities, other: &Capabilities) -> Capabilities {
    Capabilities {
        version_pair_bytes_max: one.version_pair_bytes_max.min(other.version_pair_bytes_max),
        whole_bytes: one.whole_bytes.min(other.whole_bytes),
        write_upward: one.write_upward && other.write_upward,
        atomic_then_read: one.atomic_then_read && other.atomic_then_read,
        arrival_sees_write: one.arrival_sees_write && other.arrival_sees_write,
        write_beside_cas: one.write_beside_cas && other.write_beside_cas,
        masked_cas: one.masked_cas && other.masked_cas,
        write_survives_writer_bytes_max: one
            .write_survives_writer_bytes_max
            .min(other.write_survives_writer_bytes_max),
        cpu_sees_write: one.cpu_sees_write && other.cpu_sees_write,
    }
}

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

/// 24 bits that the last queue pair of the same number did not have, as likely as can be: a packet that is late finds
/// nobody.
pub(super) fn drawn() -> u32 {
    (RandomState::new().build_hasher().finish() & 0x00FF_FFFF) as u32
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

    fn some(kind: CardKind, alone: bool) -> RegionWords {
        RegionWords {
            host: (0x7F00_0000_0000, 17),
            device: (64, u32::MAX),
            device_on_card: true,
            kind,
            alone,
            masked_cas: kind == CardKind::Hardware,
            mtu: 3,
            link: LinkKind::RoceV2,
            of_card: 128 << 10,
        }
    }

    #[test]
    fn what_is_told_of_a_card_survives_its_words() {
        for (kind, alone) in [(CardKind::Hardware, false), (CardKind::SoftRoce, true)] {
            let told = some(kind, alone);
            assert_eq!(RegionWords::from_words(told.words()), Some(told));
        }
        let good = some(CardKind::Hardware, false).words();
        for (unknown, what) in [(16, "a flag"), (7 << 8, "an MTU"), (1 << 16, "a link"), (1 << 24, "a byte")]
        {
            let words = [good[0], good[1], good[2], good[3] | unknown];
            assert_eq!(RegionWords::from_words(words), None, "{what} that this program does not know");
        }
    }

    #[test]
    fn a_memory_node_that_comes_back_with_less_is_refused() {
        let had = some(CardKind::Hardware, false);
        let promised = had.capabilities();
        assert_eq!(had.check_promises(&promised), Ok(()));
        assert_eq!(RegionWords { mtu: 5, ..had }.check_promises(&promised), Ok(()), "more is no loss");
        for less in [
            RegionWords { mtu: 2, ..had },
            RegionWords { masked_cas: false, ..had },
            some(CardKind::SoftRoce, true),
        ] {
            let why = less.check_promises(&promised).unwrap_err();
            assert!(why.contains("open the pool again"), "{less:?}");
        }
    }

    #[test]
    fn why_locks_lie_in_host_memory_is_told() {
        let error = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(why_on_host(0, 256 << 10, &error), "the card has none");
        assert!(why_on_host(128 << 10, 256 << 10, &error).contains("131072 bytes"));
        assert!(why_on_host(256 << 10, 256 << 10, &error).contains("denied"), "the system's own words");
    }

    #[test]
    fn a_pool_promises_what_its_weakest_memory_node_does() {
        let card = some(CardKind::Hardware, false).capabilities();
        let soft = some(CardKind::SoftRoce, false).capabilities();
        let both = weakest(card, &soft);
        assert_eq!((both.version_pair_bytes_max, both.whole_bytes, both.write_upward), (0, 8, false));
        assert_eq!((both.cpu_sees_write, both.atomic_then_read), (false, true));
        assert_eq!((card.masked_cas, both.masked_cas), (true, false));
        let small = RegionWords { mtu: 2, ..some(CardKind::Hardware, false) };
        let both = weakest(card, &small.capabilities());
        assert_eq!((card.write_survives_writer_bytes_max, both.write_survives_writer_bytes_max), (1024, 512));
    }
}
