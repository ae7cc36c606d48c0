//! Queue pairs and completion queues: the unsafe half. The notes on ownership, threads and memory in
//! [`super::super::sys`] apply here too.

use super::super::abi::sys::{self as abi, numbers};
use super::super::mlx5::{self, MaskedCasRequest};
use super::super::sys::{
    Context, Domain, Handle, Span, check_errno, functions, non_null, owned, table_entry, unsupported,
};
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

/// Reads a function pointer of an object, which does not change while the object is alive.
macro_rules! entry {
    ($object:expr, $field:ident) => {{
        // SAFETY: the object is alive, because its owner is borrowed; the field is set at creation.
        unsafe { (*$object).$field }.ok_or_else(unsupported)
    }};
    ($object:expr, ops.$field:ident) => {{
        // SAFETY: as above: a context lives as long as the objects that were created from it.
        unsafe { (*$object).ops.$field }.ok_or_else(unsupported)
    }};
}

owned! {
    /// A completion channel: a thread sleeps on it until there are completions.
    Channel, abi::CompChannel, destroy_comp_channel, { _context: Arc<Context> }
}

impl Channel {
    /// Creates a channel.
    pub(in crate::rdma) fn new(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the context is open.
        let handle = Handle::new(unsafe { (functions.create_comp_channel)(context.handle.as_ptr()) })?;
        Ok(Arc::new(Self { handle, _context: Arc::clone(context) }))
    }

    /// Waits for an event of an armed queue, and takes it. False: none arrived in time.
    pub(in crate::rdma) fn wait(&self, most: Duration) -> io::Result<bool> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the channel is alive, and its descriptor does not change.
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
        check_errno(unsafe {
            (functions.get_cq_event)(self.handle.as_ptr(), &raw mut cq, &raw mut context)
        })?;
        // SAFETY: the queue of the event is alive: destroying one waits for the acknowledgement of its
        // events.
        unsafe { (functions.ack_cq_events)(cq, 1) };
        Ok(true)
    }
}

owned! {
    /// A completion queue.
    Completions, abi::Cq, destroy_cq, { context: Arc<Context>, _channel: Option<Arc<Channel>> }
}

/// [`TAKEN_MAX`] as a C integer.
const COUNT_MAX: c_int = 16;
const _: () = assert!(COUNT_MAX as usize == TAKEN_MAX);
/// Completions taken at once.
pub(in crate::rdma) const TAKEN_MAX: usize = 16;

impl Completions {
    /// Creates a queue of `entries`, whose events go to `channel`.
    pub(in crate::rdma) fn new(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<&Arc<Channel>>,
    ) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        let to = channel.map_or(ptr::null_mut(), |channel| channel.handle.as_ptr());
        let entries = entries.cast_signed();
        // SAFETY: context and channel are alive, and the queue keeps them alive; every device has vector 0.
        let handle = Handle::new(unsafe {
            (functions.create_cq)(context.handle.as_ptr(), entries, ptr::null_mut(), to, 0)
        })?;
        Ok(Arc::new(Self { handle, context: Arc::clone(context), _channel: channel.cloned() }))
    }

    /// Takes the available completions, up to the size of `into`.
    #[inline]
    pub(in crate::rdma) fn poll(&self, into: &mut [abi::Wc; TAKEN_MAX]) -> io::Result<usize> {
        let poll = entry!(self.context.handle.as_ptr(), ops.poll_cq)?;
        // SAFETY: the driver writes at most `COUNT_MAX` completions, and `into` has that many.
        let taken = unsafe { poll(self.handle.as_ptr(), COUNT_MAX, into.as_mut_ptr()) };
        usize::try_from(taken).map_err(|_| io::Error::other("the completion queue cannot be polled"))
    }

    /// Makes the next completion raise an event.
    pub(in crate::rdma) fn arm(&self) -> io::Result<()> {
        let arm = entry!(self.context.handle.as_ptr(), ops.req_notify_cq)?;
        // SAFETY: the queue is alive; 0: any completion.
        check_errno(unsafe { arm(self.handle.as_ptr(), 0) })
    }
}

owned! {
    /// A shared receive queue.
    Receives, abi::Srq, destroy_srq, { context: Arc<Context>, _domain: Arc<Domain> }
}

impl Receives {
    /// Creates a queue of at most `count` receives.
    pub(in crate::rdma) fn new(domain: &Arc<Domain>, count: u32) -> io::Result<Arc<Self>> {
        let functions = functions().map_err(io::Error::other)?;
        let mut attributes =
            abi::SrqInitAttr { srq_context: ptr::null_mut(), max_wr: count, max_sge: 1, srq_limit: 0 };
        // SAFETY: the domain is alive, and the structure has the header's layout.
        let handle =
            Handle::new(unsafe { (functions.create_srq)(domain.handle.as_ptr(), &raw mut attributes) })?;
        let context = Arc::clone(&domain.context);
        Ok(Arc::new(Self { handle, context, _domain: Arc::clone(domain) }))
    }

    /// Posts a receive without memory, which takes the immediate of one WRITE_WITH_IMM.
    pub(in crate::rdma) fn post(&self) -> io::Result<()> {
        let post = entry!(self.context.handle.as_ptr(), ops.post_srq_recv)?;
        let mut receive =
            abi::RecvWr { wr_id: 0, next: ptr::null_mut(), sg_list: ptr::null_mut(), num_sge: 0 };
        let mut bad = ptr::null_mut();
        // SAFETY: one request without memory, which the driver copies.
        check_errno(unsafe { post(self.handle.as_ptr(), &raw mut receive, &raw mut bad) })
    }
}

owned! {
    /// A queue pair.
    QueuePair, abi::Qp, destroy_qp, {
        extended: Option<NonNull<abi::QpEx>>,
        raw: Option<NonNull<abi::Mlx5QpEx>>,
        inline_max: usize,
        dependencies: Dependencies,
    }
}

/// The objects that must outlive a queue pair.
pub(in crate::rdma) struct Dependencies {
    domain: Arc<Domain>,
    _sent: Arc<Completions>,
    _received: Arc<Completions>,
    _receives: Option<Arc<Receives>>,
}

/// The parameters of a queue pair.
#[derive(Debug)]
pub(in crate::rdma) struct QueuePairSpec<'a> {
    pub(in crate::rdma) domain: &'a Arc<Domain>,
    pub(in crate::rdma) sent: &'a Arc<Completions>,
    pub(in crate::rdma) received: &'a Arc<Completions>,
    pub(in crate::rdma) receives: Option<&'a Arc<Receives>>,
    /// Slots of its send queue.
    pub(in crate::rdma) requests: u32,
    /// Bytes that a WRITE may carry inline.
    pub(in crate::rdma) inline: u32,
    /// Whether it accepts masked compare-and-swap: mlx5 devices only.
    pub(in crate::rdma) masked_cas: bool,
}

/// A request to post.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Request<'a> {
    /// The identifier in its completion, if it makes one.
    pub(in crate::rdma) signal: Option<u64>,
    /// Whether it waits for the answers to earlier READs and atomics.
    pub(in crate::rdma) fenced: bool,
    pub(in crate::rdma) at: u64,
    pub(in crate::rdma) key: u32,
    pub(in crate::rdma) work: Work<'a>,
}

/// The operation of a request.
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

/// The source of a WRITE's bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) enum Source<'a> {
    /// Inline in the request: copied during the post.
    Inline(&'a [u8]),
    /// In registered memory, which must not change until the completion.
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

impl QueuePair {
    /// Creates an unconnected queue pair, with the extended interface if the driver has it.
    pub(in crate::rdma) fn new(spec: &QueuePairSpec<'_>) -> io::Result<Self> {
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
        let created = if spec.masked_cas {
            Self::with_raw(spec, plain)?
        } else {
            match Self::extended(spec, plain) {
                Some(pair) => pair,
                None => Self::plain(spec, plain)?,
            }
        };
        Ok(Self {
            handle: created.handle,
            extended: created.extended,
            raw: created.raw,
            inline_max: created.inline_max as usize,
            dependencies: Dependencies {
                domain: Arc::clone(spec.domain),
                _sent: Arc::clone(spec.sent),
                _received: Arc::clone(spec.received),
                _receives: spec.receives.cloned(),
            },
        })
    }

    /// Destroys the queue pair, and waits for the device. On failure the queue pair stays alive.
    pub(in crate::rdma) fn destroy(self) -> Result<(), (Self, io::Error)> {
        let functions = match functions() {
            Ok(functions) => functions,
            Err(why) => return Err((self, io::Error::other(why))),
        };
        // SAFETY: the handle came from the library, and is alive.
        if let Err(error) = check_errno(unsafe { (functions.destroy_qp)(self.handle.as_ptr()) }) {
            return Err((self, error));
        }
        // The handle is destroyed and must not be destroyed again; its dependencies are dropped now.
        let mut pair = ManuallyDrop::new(self);
        // SAFETY: it is dropped here only, and the queue pair is unused.
        unsafe { ptr::drop_in_place(&raw mut pair.dependencies) };
        Ok(())
    }

    fn extended(spec: &QueuePairSpec<'_>, plain: abi::QpInitAttr) -> Option<CreatedPair> {
        let (context, functions) = (&spec.domain.context, functions().ok()?);
        let create = table_entry!(context, create_qp_ex)?;
        let mut wanted = spec.extended(plain);
        // SAFETY: all objects are alive and of one context; the structure has the header's layout.
        let handle = Handle::new(unsafe { create(context.handle.as_ptr(), &raw mut wanted) }).ok()?;
        // SAFETY: the queue pair was made with send operations; the library returns its extended form.
        let extended = NonNull::new(unsafe { (functions.qp_to_qp_ex)(handle.as_ptr()) });
        Some(CreatedPair { handle, extended, raw: None, inline_max: wanted.plain.cap.max_inline_data })
    }

    /// Creates a queue pair with mlx5's interface for raw requests.
    fn with_raw(spec: &QueuePairSpec<'_>, plain: abi::QpInitAttr) -> io::Result<CreatedPair> {
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
        // SAFETY: all objects are alive and of one mlx5 context; the structures have the headers' layouts.
        let handle = Handle::new(unsafe { (mlx5.create_qp)(context, &raw mut wanted, &raw mut raw) })?;
        // SAFETY: the queue pair was made with send operations; the library returns its extended form.
        let extended = non_null(unsafe { (functions.qp_to_qp_ex)(handle.as_ptr()) })?;
        // SAFETY: mlx5 made it with raw requests.
        let raw = non_null(unsafe { (mlx5.qp_ex)(extended.as_ptr()) })?;
        let inline_max = wanted.plain.cap.max_inline_data;
        Ok(CreatedPair { handle, extended: Some(extended), raw: Some(raw), inline_max })
    }

    fn plain(spec: &QueuePairSpec<'_>, mut wanted: abi::QpInitAttr) -> io::Result<CreatedPair> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: all objects are alive and of one context; the structure has the header's layout.
        let handle =
            Handle::new(unsafe { (functions.create_qp)(spec.domain.handle.as_ptr(), &raw mut wanted) })?;
        Ok(CreatedPair { handle, extended: None, raw: None, inline_max: wanted.cap.max_inline_data })
    }

    /// Returns its number.
    pub(in crate::rdma) fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive, and its number does not change.
        unsafe { (*self.handle.as_ptr()).qp_num }
    }

    /// Returns the bytes that a WRITE may carry inline.
    pub(in crate::rdma) fn inline_max(&self) -> usize {
        self.inline_max
    }

    /// Changes its state, with the `attributes` that `mask` selects.
    pub(in crate::rdma) fn modify(&self, mut attributes: abi::QpAttr, mask: i32) -> io::Result<()> {
        let functions = functions().map_err(io::Error::other)?;
        // SAFETY: the queue pair is alive, and the structure has the header's layout.
        check_errno(unsafe { (functions.modify_qp)(self.handle.as_ptr(), &raw mut attributes, mask) })
    }

    /// Posts requests as one doorbell; its send queue has free slots for all of them.
    pub(in crate::rdma) fn post<'a>(
        &mut self,
        requests: impl Iterator<Item = Request<'a>>,
    ) -> io::Result<()> {
        match self.extended {
            Some(extended) => {
                post_extended(&Posting { at: extended, raw: self.raw, number: self.number() }, requests)
            }
            None => self.post_list(requests),
        }
    }

    /// Posts through the plain interface: a linked list.
    fn post_list<'a>(&mut self, requests: impl Iterator<Item = Request<'a>>) -> io::Result<()> {
        let post = entry!(self.dependencies.domain.context.handle.as_ptr(), ops.post_send)?;
        let list: io::Result<Vec<_>> = requests.map(|request| list_entry(&request)).collect();
        let mut list = list?;
        let mut next = ptr::null_mut();
        for (entry, sge) in list.iter_mut().rev() {
            (entry.next, entry.sg_list) = (next, &raw mut *sge);
            next = &raw mut *entry;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: a list of requests, each with one memory segment, that lives for the whole call; the driver
        // copies what it needs. Inline data are borrowed by the requests until here.
        check_errno(unsafe { post(self.handle.as_ptr(), next, &raw mut bad) })
    }
}

/// A created queue pair, its extended forms, and its inline limit.
struct CreatedPair {
    handle: Handle<abi::Qp>,
    extended: Option<NonNull<abi::QpEx>>,
    raw: Option<NonNull<abi::Mlx5QpEx>>,
    inline_max: u32,
}

impl QueuePairSpec<'_> {
    fn extended(&self, plain: abi::QpInitAttr) -> abi::QpInitAttrEx {
        let pd = self.domain.handle.as_ptr();
        abi::QpInitAttrEx { plain, pd, unused: [0; 7], send_ops_flags: numbers::SEND_OPS }
    }
}

/// A queue pair during a post.
struct Posting {
    at: NonNull<abi::QpEx>,
    raw: Option<NonNull<abi::Mlx5QpEx>>,
    number: u32,
}

/// Posts through the extended interface: one doorbell for all requests between start and completion.
#[inline]
fn post_extended<'a>(pair: &Posting, requests: impl Iterator<Item = Request<'a>>) -> io::Result<()> {
    let at = pair.at.as_ptr();
    let (start, complete) = (entry!(at, start)?, entry!(at, complete)?);
    // SAFETY: no other thread posts: the owner is borrowed exclusively.
    unsafe { start(at) };
    let mut put = Ok(());
    for request in requests {
        put = put.and_then(|()| append_request(pair, &request));
    }
    // SAFETY: follows `start`. The appended requests are posted; a driver that could not append one reports it here.
    check_errno(unsafe { complete(at) }).and(put)
}

/// Appends one request between start and completion.
#[inline]
fn append_request(pair: &Posting, request: &Request<'_>) -> io::Result<()> {
    let at = pair.at.as_ptr();
    // SAFETY: fields that the caller sets, of a queue pair that is alive and to which no other thread posts.
    unsafe { (*at).wr_id = request.signal.unwrap_or(0) };
    // With the flag of inline data: Soft-RoCE's kernel driver reads it, others do not.
    // SAFETY: as above.
    unsafe { (*at).wr_flags = request.flags() };
    let (key, address) = (request.key, request.at);
    match request.work {
        Work::Read(_) => {
            let read = entry!(at, rdma_read)?;
            // SAFETY: between start and completion, with values that the device checks.
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
        Work::MaskedCas { compare, swap, old } => return append_raw(pair, request, compare, swap, old),
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
            // SAFETY: numbers; the device checks key and range against a live registration.
            unsafe { set(at, span.0.lkey, span.0.addr, span.0.length) };
        }
    }
    Ok(())
}

/// Appends a masked compare-and-swap, in the format of mlx5 devices.
fn append_raw(
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
    // SAFETY: between start and completion; the driver copies as many bytes as the request declares.
    unsafe { post(raw, bytes.as_ptr().cast()) };
    Ok(())
}

/// Returns a request of the plain interface, not linked yet, and its memory segment.
fn list_entry(request: &Request<'_>) -> io::Result<(abi::SendWr, abi::Sge)> {
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
        /// The calls of a fake device, in order.
        static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn record(what: impl Into<String>) {
        CALLS.with_borrow_mut(|calls| calls.push(what.into()));
    }

    unsafe extern "C" fn start(_: *mut abi::QpEx) {
        record("start");
    }

    unsafe extern "C" fn complete(_: *mut abi::QpEx) -> c_int {
        record("complete");
        0
    }

    unsafe extern "C" fn cas(_: *mut abi::QpEx, _: u32, at: u64, _: u64, _: u64) {
        record(format!("cas {at:x}"));
    }

    unsafe extern "C" fn set_sge(_: *mut abi::QpEx, _: u32, at: u64, bytes: u32) {
        record(format!("answer {at:x} {bytes}"));
    }

    unsafe extern "C" fn raw_wqe(_: *mut abi::Mlx5QpEx, request: *const c_void) {
        // SAFETY: the caller passes a request of that many bytes.
        let bytes = unsafe { *request.cast::<[u8; 80]>() };
        record(format!("raw {bytes:x?}"));
    }

    #[test]
    fn a_masked_compare_and_swap_is_posted_as_a_raw_request() {
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
        post_extended(&with, requests.iter().copied()).unwrap();
        let (queue_pair, remote, answer) = (0x11, (0x2000, 9), (0x100, 7));
        let raw =
            MaskedCasRequest { queue_pair, fenced: true, signalled: true, remote, compare, swap, answer };
        let calls = CALLS.take();
        assert_eq!(
            calls,
            ["start", "cas 2000", "answer 100 8", &format!("raw {:x?}", raw.bytes()), "complete"]
        );
        // Without mlx5's interface it is an error, and no other request replaces it.
        let without = Posting { raw: None, ..with };
        assert!(post_extended(&without, requests[1..].iter().copied()).is_err());
        assert_eq!(CALLS.take(), ["start", "complete"]);
        assert!(list_entry(&requests[1]).is_err());
    }
}
