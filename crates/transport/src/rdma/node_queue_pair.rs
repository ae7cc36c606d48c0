//! One thread's queue pair to one memory node. It posts requests, takes completions, and reconnects after a loss.
//!
//! Requests are posted as doorbell lists, and only the last request of a list is signalled: completions of one queue
//! pair arrive in order, so this completion covers all requests before it. Requests beyond the free slots of the send
//! queue wait in this module. A separate thread connects a queue pair, so that clients that wait for other memory nodes
//! continue.

use super::abi::sys::Wc;
use super::arena::{Arena, Buffer};
use super::error::with_remedy;
use super::queue::sys::{Completions, QueuePair, QueuePairSpec, Request as Posted, Source, TAKEN_MAX, Work};
use super::queue::{Endpoint, INLINE_BYTES, random_psn, why};
use super::region::NodeRegions;
use super::shared::RdmaShared;
use crate::client::dial::control;
use crate::client::endpoints::{Endpoints, is_open};
use crate::client::error::ConnectError;
use crate::client::timeouts::REPLY_MAX;
use crate::stream::Stream;
use crate::wire::{Code, Control};
use farwood_fabric::doorbell::{ChainFlag, Op, Request};
use farwood_fabric::{ClientId, Doorbell, Memory, NodeId};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Requests in a send queue, if the device allows it.
const REQUESTS: u32 = 256;
/// Maximum requests of one doorbell list.
const LIST_MAX: u32 = 64;
/// Inline bytes that are tried if the device refuses [`INLINE_BYTES`].
const INLINE_BYTES_FALLBACK: [u32; 2] = [64, 0];
/// READs and atomics in flight on one queue pair: the usual limit of NICs.
const READS_MAX: u8 = 16;
/// After a failed attempt, the memory node counts as lost for this long without another attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Polls without a completion between two checks of the clock and the connection.
const SILENT_POLLS: u32 = 64;

/// A connected queue pair.
#[derive(Debug)]
struct ConnectedPair {
    // Declared before the queue of its completions, and before the stream, because the memory node ends the queue pair
    // when the stream closes.
    pair: QueuePair,
    sent: Arc<Completions>,
    stream: Stream,
    region: NodeRegions,
    /// Free slots of its send queue.
    free_slots: u32,
}

impl ConnectedPair {
    /// Ends it. True: the device no longer writes into the buffers of its requests. Otherwise those buffers
    /// are leaked.
    fn end(self) -> bool {
        let ended = self.pair.end(|| ());
        // A queue pair that cannot be ended keeps its dependencies.
        ended.map_err(std::mem::forget).is_ok()
    }
}

/// The state of the connection.
#[derive(Debug)]
enum Phase {
    /// Not connected: unused so far, or the last attempt failed.
    Down(Option<(Instant, ConnectError)>),
    /// Connecting.
    Connecting(Receiver<Result<Box<ConnectedPair>, ConnectError>>),
    /// Connected.
    Connected(Box<ConnectedPair>),
}

/// The event on a queue pair during a poll.
#[derive(Debug)]
pub(super) enum QueuePairEvent {
    /// No change, or completions arrived.
    Unchanged,
    /// It broke, for that reason, and is connected again: the requests before the break have no answer.
    Reconnected(String),
    /// It could not be connected: no waiting request has an answer.
    Failed(ConnectError),
}

/// Requests of one doorbell list in flight.
#[derive(Clone, Copy, Debug)]
struct PostedList {
    part: usize,
    from: usize,
    to: usize,
    requests: u32,
}

/// The unsent requests of a doorbell for one memory node.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrRange {
    pub(super) part: usize,
    /// The index of the next request of the doorbell.
    pub(super) from: usize,
}

/// One thread's queue pair at one memory node.
#[derive(Debug)]
pub(super) struct NodeQueuePair {
    node: NodeId,
    phase: Phase,
    /// The reason why it broke, until the new attempt succeeds or fails.
    broken_why: Option<String>,
    /// Unsent requests, in order.
    pub(super) waiting: VecDeque<WrRange>,
    lists: VecDeque<PostedList>,
    /// The buffers of the requests in flight, in order.
    buffers: VecDeque<Option<Buffer>>,
    /// Parts that were in flight when it broke.
    pub(super) lost: Vec<usize>,
    /// The error of the last post; the next poll reports it.
    post_error: Option<String>,
    silent_since: Instant,
    silent_polls: u32,
}

impl NodeQueuePair {
    /// A queue pair at memory node `node`, not connected yet.
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            phase: Phase::Down(None),
            broken_why: None,
            waiting: VecDeque::new(),
            lists: VecDeque::new(),
            buffers: VecDeque::new(),
            lost: Vec::new(),
            post_error: None,
            silent_since: Instant::now(),
            silent_polls: 0,
        }
    }

    /// Returns the memory node.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Prepares for requests: connects if necessary. Shortly after a failed attempt the next poll reports the
    /// failure.
    pub(super) fn prepare(&mut self, parameters: &ConnectParameters<'_>) {
        match &self.phase {
            Phase::Down(Some((since, _))) if since.elapsed() < RETRY_PAUSE => {}
            Phase::Down(_) => self.dial(parameters),
            Phase::Connecting(_) | Phase::Connected(_) => {}
        }
    }

    fn dial(&mut self, parameters: &ConnectParameters<'_>) {
        let (sender, receiver) = channel();
        let (shared, endpoints) = (Arc::clone(parameters.shared), Arc::clone(parameters.endpoints));
        let (node, client, number) = (self.node, parameters.client, parameters.number);
        let connect_in_thread = move || {
            let up = connect(&shared, &endpoints, node, client, number);
            // The receiver may have been dropped.
            let _ = sender.send(up.map(Box::new));
        };
        self.phase =
            match std::thread::Builder::new().name("farwood-dial".to_owned()).spawn(connect_in_thread) {
                Ok(_) => Phase::Connecting(receiver),
                Err(error) => Phase::Down(Some((Instant::now(), ConnectError::Local(error.to_string())))),
            };
    }

    /// Returns whether there is nothing to wait for.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.lists.is_empty() && self.lost.is_empty()
    }

    /// Posts the requests that the queue accepts, and takes completions. `doorbells` finds the doorbell of a part, and
    /// is notified of complete parts.
    pub(super) fn advance(
        &mut self,
        parameters: &ConnectParameters<'_>,
        arena: &mut Arena,
        doorbells: &mut impl Doorbells,
    ) -> QueuePairEvent {
        let exchanged = match &mut self.phase {
            Phase::Down(None) => return QueuePairEvent::Unchanged,
            Phase::Down(Some((_, why))) => return QueuePairEvent::Failed(why.clone()),
            Phase::Connecting(receiver) => {
                return match receiver.try_recv() {
                    Ok(dialled) => self.dialled(dialled),
                    Err(TryRecvError::Empty) => QueuePairEvent::Unchanged,
                    Err(TryRecvError::Disconnected) => {
                        self.dialled(Err(ConnectError::Lost("the connecting thread ended".to_owned())))
                    }
                };
            }
            Phase::Connected(_) => self.exchange(arena, doorbells),
        };
        if let Err(why) = exchanged {
            self.reset(why, arena);
            self.dial(parameters);
        }
        QueuePairEvent::Unchanged
    }

    fn dialled(&mut self, dialled: Result<Box<ConnectedPair>, ConnectError>) -> QueuePairEvent {
        match dialled {
            Ok(up) => {
                self.phase = Phase::Connected(up);
                self.silent_polls = 0;
                self.broken_why.take().map_or(QueuePairEvent::Unchanged, QueuePairEvent::Reconnected)
            }
            Err(why) => {
                self.broken_why = None;
                self.phase = Phase::Down(Some((Instant::now(), why.clone())));
                QueuePairEvent::Failed(why)
            }
        }
    }

    /// Discards all requests, in flight or waiting.
    fn reset(&mut self, why: String, arena: &mut Arena) {
        let phase = std::mem::replace(&mut self.phase, Phase::Down(None));
        (self.broken_why, self.post_error) = (Some(why), None);
        let ended = if let Phase::Connected(up) = phase { up.end() } else { true };
        for buffer in self.buffers.drain(..).flatten().filter(|_| ended) {
            arena.release(buffer);
        }
        let under_way = self.lists.drain(..).map(|list| list.part);
        let waiting = self.waiting.drain(..).map(|range| range.part);
        self.lost.extend(under_way.chain(waiting));
        // A part may have been posted in several lists, or partly.
        self.lost.sort_unstable();
        self.lost.dedup();
    }

    fn exchange(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) -> Result<(), String> {
        self.take_completions(arena, doorbells)?;
        self.send(arena, doorbells);
        self.post_error.take().map_or(Ok(()), Err)
    }

    /// Posts the requests that fit into the send queue. The next poll reports an error.
    pub(super) fn send(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) {
        if self.post_error.is_none()
            && let Err(error) = self.send_waiting(arena, doorbells)
        {
            self.post_error = Some(format!("the device accepts no requests: {}", with_remedy(&error, "")));
        }
    }

    fn send_waiting(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) -> io::Result<()> {
        let Phase::Connected(up) = &mut self.phase else { return Ok(()) };
        while let Some(range) = self.waiting.front_mut() {
            let doorbell = doorbells.of(range.part);
            let most = up.free_slots.min(LIST_MAX);
            if most == 0 {
                return Ok(());
            }
            let (first, inline_max) = (self.buffers.len(), up.pair.inline_max());
            let staged = stage(self.node, doorbell, range.from, most, inline_max, arena, &mut self.buffers);
            let to = match staged {
                Ok(to) => to,
                Err(error) => {
                    self.buffers.drain(first..).flatten().for_each(|buffer| arena.release(buffer));
                    let part = range.part;
                    if self.lists.iter().any(|list| list.part == part) {
                        // Its requests in flight complete first; then buffers may be free.
                        return Ok(());
                    }
                    self.waiting.pop_front();
                    let why = format!("memory for answers cannot be registered: {}", with_remedy(&error, ""));
                    doorbells.failed(part, self.node, ConnectError::Local(why));
                    continue;
                }
            };
            let requests = (self.buffers.len() - first) as u32;
            let list = PostedList { part: range.part, from: range.from, to, requests };
            if requests > 0 {
                if self.lists.is_empty() {
                    self.silent_polls = 0;
                }
                let buffers = self.buffers.range(first..);
                up.pair.post(posted(self.node, &up.region, doorbell, &list, arena, buffers))?;
                up.free_slots -= requests;
                self.lists.push_back(list);
            }
            range.from = to;
            if to == doorbell.requests().len() {
                self.waiting.pop_front();
            }
        }
        Ok(())
    }

    fn take_completions(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) -> Result<(), String> {
        let mut completions = [Wc::default(); TAKEN_MAX];
        while !self.lists.is_empty() {
            let Phase::Connected(up) = &mut self.phase else { return Ok(()) };
            let count = up.sent.poll(&mut completions).map_err(|error| error.to_string())?;
            if count == 0 {
                return self.check_silence();
            }
            self.silent_polls = 0;
            for completion in &completions[..count] {
                if completion.status != 0 {
                    return Err(why(completion.status, completion.vendor_err));
                }
                // There is one signalled completion for each list, in order.
                let Some(list) = self.lists.pop_front() else { break };
                up.free_slots += list.requests;
                answer(self.node, doorbells.of(list.part), &list, arena, &mut self.buffers);
                if list.to == doorbells.of(list.part).requests().len() {
                    doorbells.done(list.part);
                }
            }
        }
        Ok(())
    }

    /// Checks the clock and the connection at intervals while nothing completes.
    fn check_silence(&mut self) -> Result<(), String> {
        self.silent_polls += 1;
        if self.silent_polls == 1 {
            self.silent_since = Instant::now();
        }
        if !self.silent_polls.is_multiple_of(SILENT_POLLS) {
            return Ok(());
        }
        // If the queue pair at the memory node has ended, the device retries for seconds, but the TCP connection ends
        // at once.
        if let Phase::Connected(up) = &self.phase
            && !is_open(&up.stream.tcp)
        {
            return Err("it closed the connection".to_owned());
        }
        if self.silent_since.elapsed() > REPLY_MAX {
            return Err(format!(
                "no request completed for {} s; its server may not receive messages",
                REPLY_MAX.as_secs()
            ));
        }
        Ok(())
    }
}

/// The doorbells of the parts of a queue pair.
pub(super) trait Doorbells {
    /// Returns the doorbell of a part.
    fn of(&mut self, part: usize) -> &mut Doorbell;
    /// Called when all requests of a part are answered.
    fn done(&mut self, part: usize);
    /// Called when a part for `node`, of which nothing is in flight, cannot be posted.
    fn failed(&mut self, part: usize, node: NodeId, why: ConnectError);
}

/// The parameters of a connection.
#[derive(Debug)]
pub(super) struct ConnectParameters<'a> {
    pub(super) shared: &'a Arc<RdmaShared>,
    pub(super) endpoints: &'a Arc<Endpoints>,
    pub(super) client: Option<ClientId>,
    pub(super) number: u64,
}

/// Returns the requests for `node` in a range of the doorbell.
fn requests_for(
    node: NodeId,
    requests: &[Request],
    from: usize,
    to: usize,
) -> impl Iterator<Item = (usize, &Request)> {
    let range = requests[from..to].iter().enumerate();
    range.map(move |(at, request)| (from + at, request)).filter(move |(_, request)| request.at.node() == node)
}

/// Allocates buffers for the next requests for `node`, at most `most`, and fills those of WRITEs that are not inline.
/// Returns the index after the last request, or the end of the doorbell if nothing for `node` is left.
fn stage(
    node: NodeId,
    doorbell: &Doorbell,
    from: usize,
    most: u32,
    inline_max: usize,
    arena: &mut Arena,
    buffers: &mut VecDeque<Option<Buffer>>,
) -> io::Result<usize> {
    let (requests, payload) = (doorbell.requests(), doorbell.payload());
    for (staged, (at, request)) in requests_for(node, requests, from, requests.len()).enumerate() {
        if staged == most as usize {
            return Ok(at);
        }
        let buffer = match &request.op {
            Op::Read { into } => Some(arena.take(into.len().next_multiple_of(8))?),
            Op::Write { data, .. } if data.len() <= inline_max => None,
            Op::Write { data, .. } => {
                let buffer = arena.take(data.len())?;
                arena.fill(buffer, &payload[data.clone()]);
                Some(buffer)
            }
            Op::Cas { .. } | Op::MaskedCas { .. } | Op::Faa { .. } => Some(arena.take(8)?),
        };
        buffers.push_back(buffer);
    }
    Ok(requests.len())
}

/// Returns the requests of a list, in the form in which they are posted.
fn posted<'a>(
    node: NodeId,
    region: &'a NodeRegions,
    doorbell: &'a Doorbell,
    list: &'a PostedList,
    arena: &'a Arena,
    buffers: impl Iterator<Item = &'a Option<Buffer>> + 'a,
) -> impl Iterator<Item = Posted<'a>> {
    let payload = doorbell.payload();
    let requests = requests_for(node, doorbell.requests(), list.from, list.to).zip(buffers).enumerate();
    requests.map(move |(number, ((_, request), buffer))| {
        let (base, key) = match request.at.memory() {
            Memory::Host => region.host,
            Memory::Device => region.device,
        };
        let span = |bytes| arena.span(buffer.expect("a request that is not inline has a buffer"), bytes);
        let work = match &request.op {
            Op::Read { into } => Work::Read(span(into.len())),
            Op::Write { data, immediate } if buffer.is_none() => {
                Work::Write(Source::Inline(&payload[data.clone()]), *immediate)
            }
            Op::Write { data, immediate } => Work::Write(Source::Span(span(data.len())), *immediate),
            Op::Cas { compare, swap, .. } => Work::Cas { compare: *compare, swap: *swap, old: span(8) },
            Op::Faa { add, .. } => Work::Faa { add: *add, old: span(8) },
            Op::MaskedCas { compare, compare_mask, swap, swap_mask, .. } => Work::MaskedCas {
                compare: (*compare, *compare_mask),
                swap: (*swap, *swap_mask),
                old: span(8),
            },
        };
        let signal = (number as u32 + 1 == list.requests).then_some(list.part as u64);
        let fenced = request.link == ChainFlag::Fenced;
        Posted { signal, fenced, at: base + request.at.offset(), key, work }
    })
}

/// Copies the answers of a list into its requests, and frees its buffers.
fn answer(
    node: NodeId,
    doorbell: &mut Doorbell,
    list: &PostedList,
    arena: &mut Arena,
    buffers: &mut VecDeque<Option<Buffer>>,
) {
    let (requests, _) = doorbell.parts_mut();
    for request in requests[list.from..list.to].iter_mut().filter(|request| request.at.node() == node) {
        let buffer = buffers.pop_front().expect("every request in flight has an entry here");
        let Some(buffer) = buffer else { continue };
        match &mut request.op {
            Op::Read { into } => arena.copy_out(buffer, into.words_mut()),
            Op::Cas { old, .. } | Op::MaskedCas { old, .. } | Op::Faa { old, .. } => {
                arena.copy_out(buffer, std::slice::from_mut(old));
            }
            Op::Write { .. } => {}
        }
        arena.release(buffer);
    }
}

/// Connects a queue pair to memory node `node`.
fn connect(
    shared: &RdmaShared,
    endpoints: &Endpoints,
    node: NodeId,
    client: Option<ClientId>,
    number: u64,
) -> Result<ConnectedPair, ConnectError> {
    let device = &shared.device;
    let mut stream = endpoints.dial(node, client, number)?.stream;
    let region = NodeRegions::from_words(control(&mut stream, Control::Region, [0; 4])?);
    let region = region.ok_or_else(|| ConnectError::Lost("its device is of an unknown kind".to_owned()))?;
    region.check_link(device).map_err(ConnectError::Lost)?;
    region.check_promises(&shared.capabilities).map_err(|why| ConnectError::Refused(Code::WrongPool, why))?;
    let here = |error: io::Error| {
        ConnectError::Local(format!("device {}: {}", device.name, with_remedy(&error, "")))
    };
    let lost = |error: io::Error| ConnectError::Lost(format!("device {}: {error}", device.name));
    let requests = REQUESTS.min(device.limits.queue_max).max(1);
    let sent = Completions::new(&device.context, requests, None).map_err(here)?;
    let with = |inline| {
        QueuePair::new(&QueuePairSpec {
            domain: &device.domain,
            sent: &sent,
            received: &sent,
            receives: None,
            requests,
            inline,
            masked_cas: device.masked_cas,
        })
    };
    let less = |refused: io::Error| {
        INLINE_BYTES_FALLBACK.iter().find_map(|&inline| with(inline).ok()).ok_or(refused)
    };
    let pair = with(INLINE_BYTES).or_else(less).map_err(here)?;
    let (first, reads) = (random_psn(), device.limits.reads_out_max.clamp(1, READS_MAX));
    let local = pair.endpoint(device, first, reads);
    let remote = Endpoint::from_words(control(&mut stream, Control::ConnectQueuePair, local.words())?);
    let remote = remote.ok_or_else(|| {
        ConnectError::Refused(Code::NoQueuePair, "its answer does not describe a queue pair".to_owned())
    })?;
    pair.receive_from(device, &remote, 1).map_err(lost)?;
    pair.send(first, reads.min(remote.reads)).map_err(lost)?;
    Ok(ConnectedPair { pair, sent, stream, region, free_slots: requests })
}
