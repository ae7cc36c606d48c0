//! A test of a device's atomics on memory of this process, before a client relies on them. The test uses two queue
//! pairs of the device that are connected to each other, and one word with a guard word on each side.
//!
//! A device that misinterprets a request may change other memory. The test therefore uses a page that no other code
//! uses.

use super::abi::sys::Wc;
use super::abi::sys::numbers::{LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};
use super::device::Device;
use super::queue::sys::{Completions, QueuePair, QueuePairSpec, Request, TAKEN_MAX, Work};
use super::queue::{INLINE_BYTES, random_psn, why};
use super::sys::Region;
use crate::shm::Mapping;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ACCESS: u32 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC;
const PAGE_BYTES: u64 = 4096;
/// The time limit of one atomic.
const PROBE_MAX: Duration = Duration::from_secs(5);
/// The offset of the word. The guard words are before and after it, and the answer follows them.
const WORD: u64 = 8;
const ANSWER: u64 = 24;
const NEIGHBOUR: u64 = 0xA5A5_5A5A_C3C3_3C3C;
const BEFORE: u64 = 0x0123_4567_89AB_CDEF;

/// A compare-and-swap, with masks or without.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    compare: u64,
    swap: u64,
    masks: Option<(u64, u64)>,
}

impl Attempt {
    /// Returns the word that it must leave in place of [`BEFORE`].
    fn expected(self) -> u64 {
        let (compared, swapped) = self.masks.unwrap_or((u64::MAX, u64::MAX));
        if (BEFORE ^ self.compare) & compared != 0 { BEFORE } else { BEFORE & !swapped | self.swap & swapped }
    }
}

/// One attempt of each kind that succeeds and one that fails. The masks differ from each other and are not byte
/// palindromes, so swapped bytes, or exchanged masks and values, change the result.
const PLAIN: [Attempt; 2] = [
    Attempt { compare: BEFORE, swap: 0x1122_3344_5566_7788, masks: None },
    Attempt { compare: BEFORE ^ 1, swap: 0x1122_3344_5566_7788, masks: None },
];
const MASKED: [Attempt; 2] = [
    Attempt {
        compare: BEFORE & 0xFF00_0000,
        swap: 0x1122_3344_5566_7788,
        masks: Some((0xFF00_0000, 0x0FFF_0000_0000)),
    },
    Attempt {
        compare: (BEFORE ^ 1 << 24) & 0xFF00_0000,
        swap: 0x1122_3344_5566_7788,
        masks: Some((0xFF00_0000, 0x0FFF_0000_0000)),
    },
];

/// Tests the device's compare-and-swap, and masked ones if the user asked for them.
///
/// # Errors
/// The reason why the atomics cannot be used.
pub(super) fn probe_atomics(device: &Device) -> Result<(), String> {
    let failed = |error: io::Error| format!("its atomics cannot be tested: {error}");
    let mut setup = ProbeSetup::new(device).map_err(failed)?;
    let masked = if device.masked_cas { &MASKED[..] } else { &[] };
    PLAIN.iter().chain(masked).try_for_each(|attempt| setup.attempt(*attempt))
}

/// Two queue pairs and a page.
struct ProbeSetup {
    from: QueuePair,
    _to: QueuePair,
    sent: Arc<Completions>,
    // Declared before `page`, so that the memory is deregistered before it is unmapped.
    region: Region,
    page: Arc<Mapping>,
}

impl ProbeSetup {
    fn new(device: &Device) -> io::Result<Self> {
        let file: File =
            rustix::fs::memfd_create("farwood-atomics-probe", rustix::fs::MemfdFlags::CLOEXEC)?.into();
        file.set_len(PAGE_BYTES)?;
        let page = Arc::new(Mapping::new(&file, PAGE_BYTES)?);
        let region = Region::of_host(&device.domain, &page, 0, PAGE_BYTES, ACCESS)?;
        let sent = Completions::new(&device.context, TAKEN_MAX as u32, None)?;
        let pair = |masked_cas| {
            QueuePair::new(&QueuePairSpec {
                domain: &device.domain,
                sent: &sent,
                received: &sent,
                receives: None,
                // The same as for clients: the layout of the queue is part of the test.
                requests: TAKEN_MAX as u32,
                inline: INLINE_BYTES,
                masked_cas,
            })
        };
        let (from, to) = (pair(device.masked_cas)?, pair(false)?);
        let first = random_psn();
        let (here, there) = (from.endpoint(device, first, 1), to.endpoint(device, random_psn(), 1));
        to.receive_from(device, &here, 1)?;
        from.receive_from(device, &there, 1)?;
        from.send(first, 1)?;
        Ok(Self { from, _to: to, sent, region, page })
    }

    fn attempt(&mut self, attempt: Attempt) -> Result<(), String> {
        let failed = |error: io::Error| format!("its atomics cannot be tested: {error}");
        let words = [NEIGHBOUR, BEFORE, NEIGHBOUR, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.page.write_up(0, &bytes).expect("the page is larger");
        let Attempt { compare, swap, masks } = attempt;
        let old = self.region.span(ANSWER, 8);
        let work = match masks {
            None => Work::Cas { compare, swap, old },
            Some((compared, swapped)) => {
                Work::MaskedCas { compare: (compare, compared), swap: (swap, swapped), old }
            }
        };
        let (at, key) = (self.region.base() + WORD, self.region.remote_key());
        let request = Request { signal: Some(0), fenced: false, at, key, work };
        self.from.post(std::iter::once(request)).map_err(failed)?;
        self.wait()?;
        let mut found = [0; 4];
        self.page.read_down(0, &mut found).expect("the page is larger");
        let expected = [NEIGHBOUR, attempt.expected(), NEIGHBOUR, BEFORE];
        if found == expected {
            return Ok(());
        }
        let kind = if masks.is_some() { "masked compare-and-swap" } else { "compare-and-swap" };
        Err(format!("its {kind} left {found:x?} instead of {expected:x?} in a test; use another device"))
    }

    fn wait(&self) -> Result<(), String> {
        let (mut completions, end) = ([Wc::default(); TAKEN_MAX], Instant::now() + PROBE_MAX);
        loop {
            if self.sent.poll(&mut completions).map_err(|error| error.to_string())? > 0 {
                let Wc { status, vendor_err, .. } = completions[0];
                return if status == 0 { Ok(()) } else { Err(why(status, vendor_err)) };
            }
            if Instant::now() > end {
                return Err(format!(
                    "an atomic took longer than {} s in a test; use another device",
                    PROBE_MAX.as_secs()
                ));
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_distinguishes_misread_requests() {
        let [wins, loses] = MASKED;
        assert_eq!((wins.expected(), loses.expected()), (0x0123_4344_89AB_CDEF, BEFORE));
        assert_eq!((PLAIN[0].expected(), PLAIN[1].expected()), (0x1122_3344_5566_7788, BEFORE));
        let (compared, swapped) = wins.masks.unwrap();
        let misread = [
            Attempt { masks: Some((swapped, compared)), ..wins },
            Attempt { compare: wins.swap, swap: wins.compare, ..wins },
            Attempt { masks: Some((compared.swap_bytes(), swapped.swap_bytes())), ..wins },
            Attempt { masks: None, ..wins },
        ];
        for misread in misread {
            assert_ne!(misread.expected(), wins.expected(), "{misread:x?}");
        }
    }
}
