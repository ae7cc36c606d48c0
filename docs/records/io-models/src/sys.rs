//! The part of io_uring that is unsafe: memory that the kernel reads and writes while this program goes on.
//!
//! A [`Ring`] and all that it owns is leaked, so that what the kernel knows of it is valid until the process ends.

use io_uring::types::{BufRingEntry, Fixed};
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering::Release};
use std::time::{Duration, Instant};

const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 4096;
const BUFFERS: u16 = 256;
const BUFFER: usize = 4096;
/// The kernel's polling thread sleeps after this time without submissions.
const SQPOLL_IDLE_MS: u32 = 1;
/// Marks the user data of a send; the other bits are the connection.
const SEND: u64 = 1 << 63;
const MSG_WAITALL: i32 = 0x100;
const ENOBUFS: i32 = 105;

/// The kernel takes buffers to receive to from here, and only reads it. It wants a page.
#[repr(C, align(4096))]
struct Offers([BufRingEntry; BUFFERS as usize]);

/// Received bytes, in a buffer that this program owns until it gives it back.
pub(crate) struct Bytes {
    buffer: u16,
    len: usize,
}

pub(crate) enum Event {
    Received { key: usize, bytes: Bytes },
    Sent { key: usize, part: Vec<u8> },
    Over,
}

pub(crate) struct Ring {
    submitter: Submitter<'static>,
    submissions: SubmissionQueue<'static>,
    completions: CompletionQueue<'static>,
    offers: &'static mut Offers,
    tail: u16,
    /// Not a reference, because the kernel writes there.
    buffers: *mut [u8; BUFFER],
    /// The bytes that the kernel sends, by connection.
    sending: Vec<Vec<u8>>,
    sqpoll: bool,
}

impl Ring {
    /// A ring of this thread for these connections, which receives from all of them.
    pub(crate) fn leaked(streams: &[TcpStream], sqpoll: bool) -> io::Result<&'static mut Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_submit_all().setup_cqsize(COMPLETIONS);
        if sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        } else {
            builder.setup_defer_taskrun().setup_taskrun_flag();
        }
        let uring: &'static mut IoUring = Box::leak(Box::new(builder.build(SUBMISSIONS)?));
        let (mut submitter, submissions, completions) = uring.split();
        submitter.register_ring_fd()?;
        submitter.register_files(&streams.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>())?;
        let offers = Box::<Offers>::new_zeroed();
        // SAFETY: an entry is three integers and a reserved one, for all of which zero is a value.
        let offers = Box::leak(unsafe { offers.assume_init() });
        let address = offers.0.as_mut_ptr() as u64;
        // SAFETY: `address` is that of `BUFFERS` entries that start a page, and they are leaked.
        unsafe { submitter.register_buf_ring_with_flags(address, BUFFERS, 0, 0) }?;
        let buffers = Box::leak(vec![[0; BUFFER]; BUFFERS as usize].into_boxed_slice()).as_mut_ptr();
        let sending = streams.iter().map(|_| Vec::new()).collect();
        let ring = Self { submitter, submissions, completions, offers, tail: 0, buffers, sending, sqpoll };
        let ring = Box::leak(Box::new(ring));
        (0..BUFFERS).for_each(|buffer| ring.give_back(Bytes { buffer, len: 0 }));
        (0..streams.len()).try_for_each(|key| ring.receive(key))?;
        Ok(ring)
    }

    /// Submits, and waits until something has completed. For `spin` it only looks.
    pub(crate) fn wait(&mut self, spin: Duration) -> io::Result<()> {
        self.submissions.sync();
        if !self.submissions.is_empty() {
            // The rest of the kernel's work is done in the same call, where this thread does it.
            self.submitter.submit_and_wait(usize::from(!self.sqpoll))?;
        }
        let start = Instant::now();
        while !self.has_news() && start.elapsed() < spin {
            if start.elapsed() > spin / 2 {
                std::thread::yield_now();
            }
        }
        if self.completions.is_empty() {
            match self.submitter.submit_and_wait(1) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                waited => drop(waited?),
            }
            self.completions.sync();
        }
        Ok(())
    }

    /// Completions, or work of the kernel's that waits for a call of this thread.
    fn has_news(&mut self) -> bool {
        self.completions.sync();
        !self.completions.is_empty() || self.submissions.taskrun()
    }

    /// The next of what has completed.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        while let Some(entry) = self.completions.next() {
            let (key, result) = ((entry.user_data() & !SEND) as usize, entry.result());
            if entry.user_data() & SEND != 0 {
                // A send is incomplete only if its connection ended, which the completion of its receive reports.
                return Ok(Some(Event::Sent { key, part: std::mem::take(&mut self.sending[key]) }));
            }
            if result <= 0 && result != -ENOBUFS {
                return Ok(Some(Event::Over));
            }
            if !cqueue::more(entry.flags()) {
                self.receive(key)?;
            }
            if let Some(buffer) = cqueue::buffer_select(entry.flags()) {
                return Ok(Some(Event::Received { key, bytes: Bytes { buffer, len: result as usize } }));
            }
        }
        Ok(None)
    }

    /// The received bytes.
    pub(crate) fn bytes(&self, bytes: &Bytes) -> &[u8] {
        let buffer = self.buffers.wrapping_add(usize::from(bytes.buffer));
        // SAFETY: the kernel has named one of the `BUFFERS` buffers, which are leaked, and has let it go. It gets it
        // again only by `give_back`, which takes `bytes` and `self` away from who borrows them here.
        let buffer = unsafe { &*buffer };
        &buffer[..bytes.len]
    }

    /// The kernel may receive to this buffer again.
    #[expect(clippy::needless_pass_by_value, reason = "nobody may have it any more")]
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        let entry = &mut self.offers.0[usize::from(self.tail % BUFFERS)];
        entry.set_addr(self.buffers.wrapping_add(usize::from(bytes.buffer)) as u64);
        entry.set_len(BUFFER as u32);
        entry.set_bid(bytes.buffer);
        self.tail = self.tail.wrapping_add(1);
        let first = self.offers.0.as_mut_ptr();
        // SAFETY: `first` is the first entry of a ring of buffers, and initialised.
        let tail = unsafe { BufRingEntry::tail(first) };
        // SAFETY: the tail is a word of the leaked first entry; the kernel reads it atomically, and nobody else writes.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Release);
    }

    /// Sends `part` whole. A connection sends one at a time.
    pub(crate) fn send(&mut self, key: usize, part: Vec<u8>) -> io::Result<()> {
        assert!(self.sending[key].is_empty(), "a connection sends one part at a time");
        let entry = opcode::Send::new(Fixed(key as u32), part.as_ptr(), part.len() as u32).flags(MSG_WAITALL);
        self.sending[key] = part;
        self.push(&entry.build().user_data(SEND | key as u64))
    }

    /// Has the kernel receive to offered buffers until the connection ends or there is no buffer.
    fn receive(&mut self, key: usize) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(Fixed(key as u32), 0).build().user_data(key as u64))
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: only `send` and `receive` make entries. `sending` holds the bytes of a send until `next` sees its
            // completion; the kernel receives into offered buffers. The leaked ring owns both.
            let pushed = unsafe { self.submissions.push(entry) };
            self.submissions.sync();
            if pushed.is_ok() {
                return Ok(());
            }
            self.submitter.submit()?;
            self.submissions.sync();
        }
    }
}
