//! Queue pairs and what they complete into: the unsafe half. What is said of ownership, threads and memory in
//! [`super::super::sys`] holds here too.

use super::super::abi::sys::{self as abi, numbers};
use super::super::mlx5::{self, MaskedCasRequest};
use super::super::sys::{Context, Domain, Span, done, functions, made, owned, table_entry, unsupported};
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// A function of a table that does not change while its object stands.
macro_rules! entry {
    ($object:expr, $field:ident) => {{
        // SAFETY: the object stands, for its owner is borrowed; the field is set when it is made.
        unsafe { (*$object).$field }.ok_or_else(unsupported)
    }};
    ($object:expr, ops.$field:ident) => {{
        // SAFETY: as above: a context stands as long as what was made of it.
        unsafe { (*$object).ops.$field }.ok_or_else(unsupported)
    }};
}

owned! {
    /// Where a thread sleeps until there are completions.
    Channel, abi::CompChannel, destroy_comp_channel, { _context: Arc<Context> }
}

impl Channel {
    /// A new one.
    pub(in crate::rdma) fn new(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the context is open.
        let handle = made(unsafe { (functions.create_comp_channel)(context.handle.as_ptr()) })?;
        Ok(Arc::new(Self { handle, _context: Arc::clone(context) }))
    }

    /// Waits for an event of a queue that was armed, and takes it. False: there was none in that time.
    pub(in crate::rdma) fn wait(&self, most: Duration) -> io::Result<bool> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the channel stands, and its descriptor does not change.
        let fd = unsafe { (*self.handle.as_ptr()).fd };
        let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let most = c_int::try_from(most.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one structure, which lives for the whole call.
        let count = unsafe { libc::poll(&raw mut ready, 1, most) };
        if count <= 0 {
            let error = io::Error::last_os_error();
            let waited = count == 0 || error.kind() == io::ErrorKind::Interrupted;
            return if waited { Ok(false) } else { Err(error) };
        }
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: there is an event, so the call does not wait; it writes two pointers.
        done(unsafe { (functions.get_cq_event)(self.handle.as_ptr(), &raw mut cq, &raw mut context) })?;
        // SAFETY: the event is of a queue that stands: destroying one waits for its events to be acknowledged.
        unsafe { (functions.ack_cq_events)(cq, 1) };
        Ok(true)
    }
}

owned! {
    /// A completion queue.
    Completions, abi::Cq, destroy_cq, { context: Arc<Context>, _channel: Option<Arc<Channel>> }
}

/// The same as C counts.
const COUNT_MAX: c_int = 16;
const _: () = assert!(COUNT_MAX as usize == TAKEN_MAX);
/// Completions that are taken at once.
pub(in crate::rdma) const TAKEN_MAX: usize = 16;

impl Completions {
    /// A queue of `entries`, whose events go to `channel`.
    pub(in crate::rdma) fn new(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<&Arc<Channel>>,
    ) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        let to = channel.map_or(ptr::null_mut(), |channel| channel.handle.as_ptr());
        let entries = entries.cast_signed();
        // SAFETY: context and channel stand, and the queue holds them; vector 0 is every device's.
        let handle =
            made(unsafe { (functions.create_cq)(context.handle.as_ptr(), entries, ptr::null_mut(), to, 0) })?;
        Ok(Arc::new(Self { handle, context: Arc::clone(context), _channel: channel.cloned() }))
    }

    /// Takes completions, as many as are there and fit.
    #[inline]
    pub(in crate::rdma) fn poll(&self, into: &mut [abi::Wc; TAKEN_MAX]) -> io::Result<usize> {
        let poll = entry!(self.context.handle.as_ptr(), ops.poll_cq)?;
        // SAFETY: the driver writes at most so many completions, for which there is room.
        let taken = unsafe { poll(self.handle.as_ptr(), COUNT_MAX, into.as_mut_ptr()) };
        usize::try_from(taken).map_err(|_| io::Error::other("the completion queue cannot be polled"))
    }

    /// Has the next completion make an event.
    pub(in crate::rdma) fn arm(&self) -> io::Result<()> {
        let arm = entry!(self.context.handle.as_ptr(), ops.req_notify_cq)?;
        // SAFETY: the queue stands; 0: any completion will do.
        done(unsafe { arm(self.handle.as_ptr(), 0) })
    }
}

owned! {
    /// A receive queue that queue pairs share.
    Receives, abi::Srq, destroy_srq, { context: Arc<Context>, _domain: Arc<Domain> }
}

impl Receives {
    /// A queue for at most `count` receives.
    pub(in crate::rdma) fn new(domain: &Arc<Domain>, count: u32) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        let mut attributes =
            abi::SrqInitAttr { srq_context: ptr::null_mut(), max_wr: count, max_sge: 1, srq_limit: 0 };
        // SAFETY: the domain stands, and the structure is the header's.
        let handle = made(unsafe { (functions.create_srq)(domain.handle.as_ptr(), &raw mut attributes) })?;
        let context = Arc::clone(&domain.context);
        Ok(Arc::new(Self { handle, context, _domain: Arc::clone(domain) }))
    }

    /// Posts a receive without memory: for the immediate of one WRITE_WITH_IMM.
    pub(in crate::rdma) fn post(&self) -> io::Result<()> {
        let post = entry!(self.context.handle.as_ptr(), ops.post_srq_recv)?;
        let mut receive =
            abi::RecvWr { wr_id: 0, next: ptr::null_mut(), sg_list: ptr::null_mut(), num_sge: 0 };
        let mut bad = ptr::null_mut();
        // SAFETY: one request without memory, which the driver copies.
        done(unsafe { post(self.handle.as_ptr(), &raw mut receive, &raw mut bad) })
    }
}

owned! {
    /// A queue pair.
    Pair, abi::Qp, destroy_qp, {
        extended: Option<NonNull<abi::QpEx>>,
        raw: Option<NonNull<abi::Mlx5QpEx>>,
        inline_max: usize,
        needs: Needs,
    }
}

/// What must outlive a queue pair.
pub(in crate::rdma) struct Needs {
    domain: Arc<Domain>,
    _sent: Arc<Completions>,
    _received: Arc<Completions>,
    _receives: Option<Arc<Receives>>,
}

/// What a queue pair is made with.
#[derive(Debug)]
pub(in crate::rdma) struct PairSpec<'a> {
    pub(in crate::rdma) domain: &'a Arc<Domain>,
    pub(in crate::rdma) sent: &'a Arc<Completions>,
    pub(in crate::rdma) received: &'a Arc<Completions>,
    pub(in crate::rdma) receives: Option<&'a Arc<Receives>>,
    /// Requests that its send queue holds.
    pub(in crate::rdma) requests: u32,
    /// Bytes that a WRITE may carry in its request.
    pub(in crate::rdma) inline: u32,
    /// Whether masked compare-and-swap is posted on it: mlx5 cards only.
    pub(in crate::rdma) masked_cas: bool,
}

/// A request, as it is posted.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Request<'a> {
    /// What its completion says, if it has one.
    pub(in crate::rdma) signal: Option<u64>,
    /// Whether it waits for the answers to READs and atomics before it.
    pub(in crate::rdma) fenced: bool,
    pub(in crate::rdma) at: u64,
    pub(in crate::rdma) key: u32,
    pub(in crate::rdma) work: Work<'a>,
}

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) enum Work<'a> {
    Read(Span),
    Write(Source<'a>, Option<u32>),
    Cas {
        compare: u64,
        swap: u64,
        old: Span,
    },
    /// Bits and their masks.
    MaskedCas {
        compare: (u64, u64),
        swap: (u64, u64),
        old: Span,
    },
    Faa {
        add: u64,
        old: Span,
    },
}

/// Where the bytes of a WRITE are.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) enum Source<'a> {
    /// In the request: copied while it is posted.
    Inline(&'a [u8]),
    /// In registered memory, which stays as it is until the completion.
    Span(Span),
}

impl Request<'_> {
    fn flags(&self) -> u32 {
        let signal = if self.signal.is_some() { numbers::SIGNALED } else { 0 };
        let fence = if self.fenced { numbers::FENCE } else { 0 };
        let inline = matches!(self.work, Work::Write(Source::Inline(_), _));
        signal | fence | if inline { numbers::INLINE } else { 0 }
    }
}

impl Pair {
    /// A queue pair without a connection; with the extended way to post where the driver has it.
    pub(in crate::rdma) fn new(spec: &PairSpec<'_>) -> io::Result<Self> {
        let cap = abi::QpCap {
            max_send_wr: spec.requests,
            max_recv_wr: 0,
            max_send_sge: 1,
            max_recv_sge: 0,
            max_inline_data: spec.inline,
        };
        let plain = abi::QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: spec.sent.handle.as_ptr(),
            recv_cq: spec.received.handle.as_ptr(),
            srq: spec.receives.map_or(ptr::null_mut(), |receives| receives.handle.as_ptr()),
            cap,
            qp_type: numbers::RC,
            sq_sig_all: 0,
            comp_mask: numbers::WITH_PD_AND_SEND_OPS,
        };
        let made = if spec.masked_cas {
            Self::with_raw(spec, plain)?
        } else {
            match Self::extended(spec, plain) {
                Some(pair) => pair,
                None => Self::plain(spec, plain)?,
            }
        };
        Ok(Self {
            handle: made.handle,
            extended: made.extended,
            raw: made.raw,
            inline_max: made.inline_max as usize,
            needs: Needs {
                domain: Arc::clone(spec.domain),
                _sent: Arc::clone(spec.sent),
                _received: Arc::clone(spec.received),
                _receives: spec.receives.cloned(),
            },
        })
    }

    /// Destroys it, which waits for the card. Where that fails it stands.
    pub(in crate::rdma) fn destroy(self) -> Result<(), (Self, io::Error)> {
        let functions = match functions() {
            Ok(functions) => functions,
            Err(why) => return Err((self, io::Error::other(why))),
        };
        // SAFETY: the handle came from the library, and stands.
        if let Err(error) = done(unsafe { (functions.destroy_qp)(self.handle.as_ptr()) }) {
            return Err((self, error));
        }
        // Its handle is gone, and must not end once more; what it needed goes now.
        let mut pair = ManuallyDrop::new(self);
        // SAFETY: it is dropped here only, and nobody uses the queue pair any more.
        unsafe { ptr::drop_in_place(&raw mut pair.needs) };
        Ok(())
    }

    fn extended(spec: &PairSpec<'_>, plain: abi::QpInitAttr) -> Option<Made> {
        let (context, functions) = (&spec.domain.context, functions().ok()?);
        let create = table_entry!(context, create_qp_ex)?;
        let mut wanted = spec.extended(plain);
        // SAFETY: all objects named stand and are of one context; the structure is the header's.
        let handle = made(unsafe { create(context.handle.as_ptr(), &raw mut wanted) }).ok()?;
        // SAFETY: the queue pair was made with send operations; the library returns its extended form.
        let extended = NonNull::new(unsafe { (functions.qp_to_qp_ex)(handle.as_ptr()) });
        Some(Made { handle, extended, raw: None, inline_max: wanted.plain.cap.max_inline_data })
    }

    /// With mlx5's way to post requests as the card reads them.
    fn with_raw(spec: &PairSpec<'_>, plain: abi::QpInitAttr) -> io::Result<Made> {
        let functions = functions().map_err(io::Error::other)?;
        let mlx5 = mlx5::sys::functions().map_err(io::Error::other)?;
        let mut wanted = spec.extended(plain);
        let cap = &mut wanted.plain.cap;
        cap.max_inline_data = cap.max_inline_data.max(mlx5::INLINE_BYTES_MIN);
        let mut raw = abi::Mlx5QpInitAttr {
            comp_mask: numbers::MLX5_SEND_OPS_FLAGS,
            unused: [0; 3],
            send_ops_flags: numbers::MLX5_RAW_WQE,
        };
        let context = spec.domain.context.handle.as_ptr();
        // SAFETY: all objects named stand and are of one context, a card's of mlx5; the structures are the headers'.
        let handle = made(unsafe { (mlx5.create_qp)(context, &raw mut wanted, &raw mut raw) })?;
        // SAFETY: the queue pair was made with send operations; the library returns its extended form.
        let extended = made(unsafe { (functions.qp_to_qp_ex)(handle.as_ptr()) })?;
        // SAFETY: it was made by mlx5 with requests of its own.
        let raw = made(unsafe { (mlx5.qp_ex)(extended.as_ptr()) })?;
        let inline_max = wanted.plain.cap.max_inline_data;
        Ok(Made { handle, extended: Some(extended), raw: Some(raw), inline_max })
    }

    fn plain(spec: &PairSpec<'_>, mut wanted: abi::QpInitAttr) -> io::Result<Made> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: all objects named stand and are of one context; the structure is the header's.
        let handle = made(unsafe { (functions.create_qp)(spec.domain.handle.as_ptr(), &raw mut wanted) })?;
        Ok(Made { handle, extended: None, raw: None, inline_max: wanted.cap.max_inline_data })
    }

    /// Its number.
    pub(in crate::rdma) fn number(&self) -> u32 {
        // SAFETY: the queue pair stands, and its number does not change.
        unsafe { (*self.handle.as_ptr()).qp_num }
    }

    /// Bytes that a WRITE may carry in its request.
    pub(in crate::rdma) fn inline_max(&self) -> usize {
        self.inline_max
    }

    /// Moves it to another state, with what `mask` says of `attributes`.
    pub(in crate::rdma) fn modify(&self, mut attributes: abi::QpAttr, mask: i32) -> io::Result<()> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the queue pair stands, and the structure is the header's.
        done(unsafe { (functions.modify_qp)(self.handle.as_ptr(), &raw mut attributes, mask) })
    }

    /// Posts requests as one doorbell; there is room for all of them in its queue.
    pub(in crate::rdma) fn post<'a>(
        &mut self,
        requests: impl Iterator<Item = Request<'a>>,
    ) -> io::Result<()> {
        match self.extended {
            Some(extended) => ring(&Posting { at: extended, raw: self.raw, number: self.number() }, requests),
            None => self.post_list(requests),
        }
    }

    /// The list of the plain interface.
    fn post_list<'a>(&mut self, requests: impl Iterator<Item = Request<'a>>) -> io::Result<()> {
        let post = entry!(self.needs.domain.context.handle.as_ptr(), ops.post_send)?;
        let list: io::Result<Vec<_>> = requests.map(|request| in_list(&request)).collect();
        let mut list = list?;
        let mut next = ptr::null_mut();
        for (entry, sge) in list.iter_mut().rev() {
            (entry.next, entry.sg_list) = (next, &raw mut *sge);
            next = &raw mut *entry;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: a list of requests, each with one piece of memory, that stands for the whole call; the driver copies
        // what it needs. Inline data are borrowed by the requests until here.
        done(unsafe { post(self.handle.as_ptr(), next, &raw mut bad) })
    }
}

/// A queue pair, its extended forms, and bytes that its requests carry.
struct Made {
    handle: NonNull<abi::Qp>,
    extended: Option<NonNull<abi::QpEx>>,
    raw: Option<NonNull<abi::Mlx5QpEx>>,
    inline_max: u32,
}

impl PairSpec<'_> {
    fn extended(&self, plain: abi::QpInitAttr) -> abi::QpInitAttrEx {
        let pd = self.domain.handle.as_ptr();
        abi::QpInitAttrEx { plain, pd, unused: [0; 7], send_ops_flags: numbers::SEND_OPS }
    }
}

/// A queue pair while requests are placed on it.
struct Posting {
    at: NonNull<abi::QpEx>,
    raw: Option<NonNull<abi::Mlx5QpEx>>,
    number: u32,
}

/// Posts through the extended interface: one doorbell for all that is between start and completion.
#[inline]
fn ring<'a>(pair: &Posting, requests: impl Iterator<Item = Request<'a>>) -> io::Result<()> {
    let at = pair.at.as_ptr();
    let (start, complete) = (entry!(at, start)?, entry!(at, complete)?);
    // SAFETY: nobody else posts: the owner is borrowed exclusively.
    unsafe { start(at) };
    let mut put = Ok(());
    for request in requests {
        put = put.and_then(|()| place(pair, &request));
    }
    // SAFETY: follows `start`. What was placed leaves; a driver that could not place something says so here.
    done(unsafe { complete(at) }).and(put)
}

/// Places one request between start and completion.
#[inline]
fn place(pair: &Posting, request: &Request<'_>) -> io::Result<()> {
    let at = pair.at.as_ptr();
    // SAFETY: fields that the caller sets, of a queue pair that stands and that nobody else posts to.
    unsafe { (*at).wr_id = request.signal.unwrap_or(0) };
    // With the mark of inline data: Soft-RoCE's driver in the kernel looks for it, others do not.
    // SAFETY: as above.
    unsafe { (*at).wr_flags = request.flags() };
    let (key, address) = (request.key, request.at);
    match request.work {
        Work::Read(_) => {
            let read = entry!(at, rdma_read)?;
            // SAFETY: between start and completion, with values that the card checks.
            unsafe { read(at, key, address) };
        }
        Work::Write(_, None) => {
            let write = entry!(at, rdma_write)?;
            // SAFETY: as above.
            unsafe { write(at, key, address) };
        }
        Work::Write(_, Some(immediate)) => {
            let write = entry!(at, rdma_write_imm)?;
            // SAFETY: as above.
            unsafe { write(at, key, address, immediate.to_be()) };
        }
        Work::Cas { compare, swap, .. } => {
            let cas = entry!(at, atomic_cmp_swp)?;
            // SAFETY: as above.
            unsafe { cas(at, key, address, compare, swap) };
        }
        Work::MaskedCas { compare, swap, old } => return place_raw(pair, request, compare, swap, old),
        Work::Faa { add, .. } => {
            let faa = entry!(at, atomic_fetch_add)?;
            // SAFETY: as above.
            unsafe { faa(at, key, address, add) };
        }
    }
    match request.work {
        Work::Write(Source::Inline(data), _) => {
            let set = entry!(at, set_inline_data)?;
            // SAFETY: the driver copies the bytes now, and only reads them.
            unsafe { set(at, data.as_ptr().cast_mut().cast(), data.len()) };
        }
        Work::Read(span)
        | Work::Write(Source::Span(span), _)
        | Work::Cas { old: span, .. }
        | Work::MaskedCas { old: span, .. }
        | Work::Faa { old: span, .. } => {
            let set = entry!(at, set_sge)?;
            // SAFETY: numbers; the card checks key and range against a registration that stands.
            unsafe { set(at, span.0.lkey, span.0.addr, span.0.length) };
        }
    }
    Ok(())
}

/// Places a masked compare-and-swap, as mlx5 cards read it.
fn place_raw(
    pair: &Posting,
    request: &Request<'_>,
    compare: (u64, u64),
    swap: (u64, u64),
    old: Span,
) -> io::Result<()> {
    let raw = pair.raw.ok_or_else(unsupported)?.as_ptr();
    let bytes = MaskedCasRequest {
        queue_pair: pair.number,
        fenced: request.fenced,
        signalled: request.signal.is_some(),
        remote: (request.at, request.key),
        compare,
        swap,
        answer: (old.0.addr, old.0.lkey),
    }
    .bytes();
    let post = entry!(raw, raw_wqe)?;
    // SAFETY: between start and completion; the driver copies as many bytes as the request says that it has.
    unsafe { post(raw, bytes.as_ptr().cast()) };
    Ok(())
}

/// A request of the plain interface, not linked yet, and its piece of memory.
fn in_list(request: &Request<'_>) -> io::Result<(abi::SendWr, abi::Sge)> {
    let key = u64::from(request.key);
    let (opcode, immediate, sge, words) = match request.work {
        Work::Read(span) => (numbers::WR_READ, 0, span.0, [key, 0, 0]),
        Work::Write(source, immediate) => {
            let sge = match source {
                Source::Span(span) => span.0,
                Source::Inline(data) => abi::Sge {
                    addr: data.as_ptr().expose_provenance() as u64,
                    length: data.len() as u32,
                    lkey: 0,
                },
            };
            let opcode = if immediate.is_some() { numbers::WR_WRITE_IMM } else { numbers::WR_WRITE };
            (opcode, immediate.unwrap_or(0).to_be(), sge, [key, 0, 0])
        }
        Work::Cas { compare, swap, old } => (numbers::WR_CAS, 0, old.0, [compare, swap, key]),
        Work::Faa { add, old } => (numbers::WR_FAA, 0, old.0, [add, 0, key]),
        Work::MaskedCas { .. } => return Err(unsupported()),
    };
    let [key_or_compare, swap, atomic_key] = words;
    let entry = abi::SendWr {
        wr_id: request.signal.unwrap_or(0),
        next: ptr::null_mut(),
        sg_list: ptr::null_mut(),
        num_sge: 1,
        opcode,
        send_flags: request.flags(),
        imm_data: immediate,
        remote_addr: request.at,
        key_or_compare,
        swap,
        atomic_key,
        unused: [0; 7],
    };
    Ok((entry, sge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::ffi::c_void;
    use std::mem::MaybeUninit;

    thread_local! {
        /// What a card that is none was told, in order.
        static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn tell(what: impl Into<String>) {
        TOLD.with_borrow_mut(|told| told.push(what.into()));
    }

    unsafe extern "C" fn start(_: *mut abi::QpEx) {
        tell("start");
    }

    unsafe extern "C" fn complete(_: *mut abi::QpEx) -> c_int {
        tell("complete");
        0
    }

    unsafe extern "C" fn cas(_: *mut abi::QpEx, _: u32, at: u64, _: u64, _: u64) {
        tell(format!("cas {at:x}"));
    }

    unsafe extern "C" fn set_sge(_: *mut abi::QpEx, _: u32, at: u64, bytes: u32) {
        tell(format!("answer {at:x} {bytes}"));
    }

    unsafe extern "C" fn raw_wqe(_: *mut abi::Mlx5QpEx, request: *const c_void) {
        // SAFETY: the caller hands over a request of so many bytes.
        let bytes = unsafe { *request.cast::<[u8; 80]>() };
        tell(format!("raw {bytes:x?}"));
    }

    #[test]
    fn a_masked_compare_and_swap_goes_between_others_as_its_bytes() {
        // SAFETY: numbers, null pointers and no functions.
        let mut pair: abi::QpEx = unsafe { MaybeUninit::zeroed().assume_init() };
        pair.start = Some(start);
        pair.complete = Some(complete);
        pair.atomic_cmp_swp = Some(cas);
        pair.set_sge = Some(set_sge);
        // SAFETY: as above.
        let mut mlx5: abi::Mlx5QpEx = unsafe { MaybeUninit::zeroed().assume_init() };
        mlx5.raw_wqe = Some(raw_wqe);
        let old = Span(abi::Sge { addr: 0x100, length: 8, lkey: 7 });
        let (compare, swap) = ((1, 0xFF), (2, 0xFF00));
        let request = |signal, work| Request { signal, fenced: signal.is_some(), at: 0x2000, key: 9, work };
        let requests = [
            request(None, Work::Cas { compare: 1, swap: 2, old }),
            request(Some(3), Work::MaskedCas { compare, swap, old }),
        ];
        let raw = Some(NonNull::from(&mut mlx5));
        let with = Posting { at: NonNull::from(&mut pair), raw, number: 0x11 };
        ring(&with, requests.iter().copied()).unwrap();
        let (queue_pair, remote, answer) = (0x11, (0x2000, 9), (0x100, 7));
        let raw =
            MaskedCasRequest { queue_pair, fenced: true, signalled: true, remote, compare, swap, answer };
        let told = TOLD.take();
        assert_eq!(
            told,
            ["start", "cas 2000", "answer 100 8", &format!("raw {:x?}", raw.bytes()), "complete"]
        );
        // Without mlx5's way it is an error, and no other request stands for it.
        let without = Posting { raw: None, ..with };
        assert!(ring(&without, requests[1..].iter().copied()).is_err());
        assert_eq!(TOLD.take(), ["start", "complete"]);
        assert!(in_list(&requests[1]).is_err());
    }
}
