//! One thread's queue pair at one memory node: requests out, completions in, coming back after a loss.
//!
//! Requests leave as doorbell lists, of which only the last asks for a completion: completions of one queue pair come
//! in order, so that one tells of all before it. What the send queue has no room for waits here. A link is dialled in
//! a thread of its own, so that whoever waits for other memory nodes goes on meanwhile.

use super::abi::sys::Wc;
use super::arena::{Arena, Piece};
use super::error::with_remedy;
use super::queue::sys::{Completions, Pair, PairSpec, Request as Posted, Source, TAKEN_MAX, Work};
use super::queue::{Endpoint, INLINE_BYTES, drawn, why};
use super::region::RegionWords;
use super::shared::Ground;
use crate::client::dial::control;
use crate::client::endpoints::{Reach, is_open};
use crate::client::error::NoWay;
use crate::client::timeouts::REPLY_MAX;
use crate::stream::Stream;
use crate::wire::{Code, Control};
use farwood_fabric::doorbell::{Link as Order, Op, Request};
use farwood_fabric::{ClientId, Doorbell, Memory, NodeId};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Requests that a send queue holds, if the card lets it.
const REQUESTS: u32 = 256;
/// Requests of one doorbell list.
const LIST_MAX: u32 = 64;
/// Inline bytes that are tried where the device refuses [`INLINE_BYTES`].
const INLINE_BYTES_LESS: [u32; 2] = [64, 0];
/// READs and atomics under way, of one queue pair: what cards of the field have.
const READS_MAX: u8 = 16;
/// After a failed dial, the memory node counts as lost for this long without another.
const REST: Duration = Duration::from_millis(50);
/// Turns without news after which the clock, and the connection, are looked at.
const QUIET_TURNS: u32 = 64;

/// A connected queue pair.
#[derive(Debug)]
struct Up {
    // Before the queue that its completions go to, and before the stream, whose end is its end at the memory node.
    pair: Pair,
    sent: Arc<Completions>,
    stream: Stream,
    region: RegionWords,
    /// Requests that its send queue has room for.
    room: u32,
}

impl Up {
    /// Ends it. True: the card writes into pieces of its requests no more. Otherwise they are nobody's from now on.
    fn end(self) -> bool {
        let ended = self.pair.end(|| ());
        // One that does not end keeps what it needs, too.
        ended.map_err(std::mem::forget).is_ok()
    }
}

/// Where a link stands.
#[derive(Debug)]
enum Phase {
    /// Not connected; nobody has asked, or the last dial failed.
    Down(Option<(Instant, NoWay)>),
    /// Being dialled.
    Dialling(Receiver<Result<Box<Up>, NoWay>>),
    /// Connected.
    Up(Box<Up>),
}

/// What happened to a link.
#[derive(Debug)]
pub(super) enum News {
    /// Nothing, or completions came.
    Fine,
    /// It broke, for that reason, and is up again: what was under way then has no answer.
    Up(String),
    /// It cannot be had: nothing that waits for it has an answer.
    NoWay(NoWay),
}

/// Requests of one doorbell list, under way.
#[derive(Clone, Copy, Debug)]
struct List {
    part: usize,
    from: usize,
    to: usize,
    requests: u32,
}

/// The requests of a doorbell for one memory node that are to leave, or under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) part: usize,
    /// The next of the doorbell's requests to be looked at.
    pub(super) from: usize,
}

/// One thread's queue pair at one memory node.
#[derive(Debug)]
pub(super) struct Link {
    node: NodeId,
    phase: Phase,
    /// Why it broke, until it is known whether it can be had again.
    broke: Option<String>,
    /// What has not left, in its order.
    pub(super) waiting: VecDeque<Stretch>,
    lists: VecDeque<List>,
    /// The pieces of the requests under way, in their order.
    pieces: VecDeque<Option<Piece>>,
    /// Parts that were under way when it broke.
    pub(super) lost: Vec<usize>,
    /// Why nothing more can be sent, until the next turn.
    trouble: Option<String>,
    heard: Instant,
    quiet: u32,
}

impl Link {
    /// A link to memory node `node`, not connected yet.
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            phase: Phase::Down(None),
            broke: None,
            waiting: VecDeque::new(),
            lists: VecDeque::new(),
            pieces: VecDeque::new(),
            lost: Vec::new(),
            trouble: None,
            heard: Instant::now(),
            quiet: 0,
        }
    }

    /// The memory node.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Gets ready to take requests: connects if need be. While a failed dial is young, the next turn says so.
    pub(super) fn prepare(&mut self, way: &Dial<'_>) {
        match &self.phase {
            Phase::Down(Some((since, _))) if since.elapsed() < REST => {}
            Phase::Down(_) => self.dial(way),
            Phase::Dialling(_) | Phase::Up(_) => {}
        }
    }

    fn dial(&mut self, way: &Dial<'_>) {
        let (sender, receiver) = channel();
        let (ground, reach) = (Arc::clone(way.ground), Arc::clone(way.reach));
        let (node, client, number) = (self.node, way.client, way.number);
        let job = move || {
            let up = connect(&ground, &reach, node, client, number);
            // Nobody may wait for it any more.
            let _ = sender.send(up.map(Box::new));
        };
        self.phase = match std::thread::Builder::new().name("farwood-dial".to_owned()).spawn(job) {
            Ok(_) => Phase::Dialling(receiver),
            Err(error) => Phase::Down(Some((Instant::now(), NoWay::Here(error.to_string())))),
        };
    }

    /// Whether there is anything to wait for.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.lists.is_empty() && self.lost.is_empty()
    }

    /// Sends what can be, and takes completions. `doorbell` yields that of a part; `done` is told of parts whose
    /// requests are all answered.
    pub(super) fn turn(&mut self, way: &Dial<'_>, arena: &mut Arena, doorbells: &mut impl Doorbells) -> News {
        let exchanged = match &mut self.phase {
            Phase::Down(None) => return News::Fine,
            Phase::Down(Some((_, why))) => return News::NoWay(why.clone()),
            Phase::Dialling(receiver) => {
                return match receiver.try_recv() {
                    Ok(dialled) => self.dialled(dialled),
                    Err(TryRecvError::Empty) => News::Fine,
                    Err(TryRecvError::Disconnected) => {
                        self.dialled(Err(NoWay::Lost("the thread that connects is gone".to_owned())))
                    }
                };
            }
            Phase::Up(_) => self.exchange(arena, doorbells),
        };
        if let Err(why) = exchanged {
            self.give_up(why, arena);
            self.dial(way);
        }
        News::Fine
    }

    fn dialled(&mut self, dialled: Result<Box<Up>, NoWay>) -> News {
        match dialled {
            Ok(up) => {
                self.phase = Phase::Up(up);
                self.quiet = 0;
                self.broke.take().map_or(News::Fine, News::Up)
            }
            Err(why) => {
                self.broke = None;
                self.phase = Phase::Down(Some((Instant::now(), why.clone())));
                News::NoWay(why)
            }
        }
    }

    /// What was under way, or waited, is lost.
    fn give_up(&mut self, why: String, arena: &mut Arena) {
        let phase = std::mem::replace(&mut self.phase, Phase::Down(None));
        (self.broke, self.trouble) = (Some(why), None);
        let ended = if let Phase::Up(up) = phase { up.end() } else { true };
        for piece in self.pieces.drain(..).flatten().filter(|_| ended) {
            arena.give(piece);
        }
        let under_way = self.lists.drain(..).map(|list| list.part);
        let waiting = self.waiting.drain(..).map(|stretch| stretch.part);
        self.lost.extend(under_way.chain(waiting));
        // A part that had left in several lists, or in part.
        self.lost.sort_unstable();
        self.lost.dedup();
    }

    fn exchange(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) -> Result<(), String> {
        self.take_completions(arena, doorbells)?;
        self.send(arena, doorbells);
        self.trouble.take().map_or(Ok(()), Err)
    }

    /// Sends what the send queue has room for. What goes wrong shows at the next turn.
    pub(super) fn send(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) {
        if self.trouble.is_none()
            && let Err(error) = self.send_waiting(arena, doorbells)
        {
            self.trouble = Some(format!("the card takes no requests: {}", with_remedy(&error, "")));
        }
    }

    fn send_waiting(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) -> io::Result<()> {
        let Phase::Up(up) = &mut self.phase else { return Ok(()) };
        while let Some(stretch) = self.waiting.front_mut() {
            let doorbell = doorbells.of(stretch.part);
            let most = up.room.min(LIST_MAX);
            if most == 0 {
                return Ok(());
            }
            let (first, inline_max) = (self.pieces.len(), up.pair.inline_max());
            let staged = stage(self.node, doorbell, stretch.from, most, inline_max, arena, &mut self.pieces);
            let to = match staged {
                Ok(to) => to,
                Err(error) => {
                    self.pieces.drain(first..).flatten().for_each(|piece| arena.give(piece));
                    let part = stretch.part;
                    if self.lists.iter().any(|list| list.part == part) {
                        // What of it is under way comes to its end first; then there may be pieces.
                        return Ok(());
                    }
                    self.waiting.pop_front();
                    let why = format!("memory for answers cannot be registered: {}", with_remedy(&error, ""));
                    doorbells.failed(part, self.node, NoWay::Here(why));
                    continue;
                }
            };
            let requests = (self.pieces.len() - first) as u32;
            let list = List { part: stretch.part, from: stretch.from, to, requests };
            if requests > 0 {
                if self.lists.is_empty() {
                    self.quiet = 0;
                }
                let pieces = self.pieces.range(first..);
                up.pair.post(posted(self.node, &up.region, doorbell, &list, arena, pieces))?;
                up.room -= requests;
                self.lists.push_back(list);
            }
            stretch.from = to;
            if to == doorbell.requests().len() {
                self.waiting.pop_front();
            }
        }
        Ok(())
    }

    fn take_completions(&mut self, arena: &mut Arena, doorbells: &mut impl Doorbells) -> Result<(), String> {
        let mut completions = [Wc::default(); TAKEN_MAX];
        while !self.lists.is_empty() {
            let Phase::Up(up) = &mut self.phase else { return Ok(()) };
            let count = up.sent.poll(&mut completions).map_err(|error| error.to_string())?;
            if count == 0 {
                return self.look_at_clock();
            }
            self.quiet = 0;
            for completion in &completions[..count] {
                if completion.status != 0 {
                    return Err(why(completion.status, completion.vendor_err));
                }
                // One for each list, in order.
                let Some(list) = self.lists.pop_front() else { break };
                up.room += list.requests;
                answer(self.node, doorbells.of(list.part), &list, arena, &mut self.pieces);
                if list.to == doorbells.of(list.part).requests().len() {
                    doorbells.done(list.part);
                }
            }
        }
        Ok(())
    }

    /// Tells time now and then if nothing comes.
    fn look_at_clock(&mut self) -> Result<(), String> {
        self.quiet += 1;
        if self.quiet == 1 {
            self.heard = Instant::now();
        }
        if !self.quiet.is_multiple_of(QUIET_TURNS) {
            return Ok(());
        }
        // The card would try for seconds to reach a queue pair that was ended; its connection ends at once.
        if let Phase::Up(up) = &self.phase
            && !is_open(&up.stream.tcp)
        {
            return Err("it closed the connection".to_owned());
        }
        if self.heard.elapsed() > REPLY_MAX {
            return Err(format!(
                "nothing was completed for {} s; its server may take no messages",
                REPLY_MAX.as_secs()
            ));
        }
        Ok(())
    }
}

/// Where a link finds the doorbells of its parts.
pub(super) trait Doorbells {
    /// That of a part.
    fn of(&mut self, part: usize) -> &mut Doorbell;
    /// All requests of a part are answered.
    fn done(&mut self, part: usize);
    /// A part for `node`, of which nothing is under way, cannot be posted.
    fn failed(&mut self, part: usize, node: NodeId, why: NoWay);
}

/// How a link is dialled.
#[derive(Debug)]
pub(super) struct Dial<'a> {
    pub(super) ground: &'a Arc<Ground>,
    pub(super) reach: &'a Arc<Reach>,
    pub(super) client: Option<ClientId>,
    pub(super) number: u64,
}

/// The requests for `node` among those of a stretch.
fn ours(
    node: NodeId,
    requests: &[Request],
    from: usize,
    to: usize,
) -> impl Iterator<Item = (usize, &Request)> {
    let stretch = requests[from..to].iter().enumerate();
    stretch
        .map(move |(at, request)| (from + at, request))
        .filter(move |(_, request)| request.at.node() == node)
}

/// Takes pieces for the next requests for `node`, at most `most`, and fills those of WRITEs that do not go inline.
/// Yields the request behind the last; that is the end of the doorbell where nothing for `node` is left.
fn stage(
    node: NodeId,
    doorbell: &Doorbell,
    from: usize,
    most: u32,
    inline_max: usize,
    arena: &mut Arena,
    pieces: &mut VecDeque<Option<Piece>>,
) -> io::Result<usize> {
    let (requests, payload) = (doorbell.requests(), doorbell.payload());
    for (staged, (at, request)) in ours(node, requests, from, requests.len()).enumerate() {
        if staged == most as usize {
            return Ok(at);
        }
        let piece = match &request.op {
            Op::Read { into } => Some(arena.take(into.len().next_multiple_of(8))?),
            Op::Write { data, .. } if data.len() <= inline_max => None,
            Op::Write { data, .. } => {
                let piece = arena.take(data.len())?;
                arena.fill(piece, &payload[data.clone()]);
                Some(piece)
            }
            Op::Cas { .. } | Op::MaskedCas { .. } | Op::Faa { .. } => Some(arena.take(8)?),
        };
        pieces.push_back(piece);
    }
    Ok(requests.len())
}

/// A list as it is posted.
fn posted<'a>(
    node: NodeId,
    region: &'a RegionWords,
    doorbell: &'a Doorbell,
    list: &'a List,
    arena: &'a Arena,
    pieces: impl Iterator<Item = &'a Option<Piece>> + 'a,
) -> impl Iterator<Item = Posted<'a>> {
    let payload = doorbell.payload();
    let requests = ours(node, doorbell.requests(), list.from, list.to).zip(pieces).enumerate();
    requests.map(move |(number, ((_, request), piece))| {
        let (base, key) = match request.at.memory() {
            Memory::Host => region.host,
            Memory::Device => region.device,
        };
        let span = |bytes| arena.span(piece.expect("it was staged with a piece"), bytes);
        let work = match &request.op {
            Op::Read { into } => Work::Read(span(into.len())),
            Op::Write { data, immediate } if piece.is_none() => {
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
        let fenced = request.link == Order::Fenced;
        Posted { signal, fenced, at: base + request.at.offset(), key, work }
    })
}

/// Puts the answers of a list where they belong, and gives its pieces back.
fn answer(
    node: NodeId,
    doorbell: &mut Doorbell,
    list: &List,
    arena: &mut Arena,
    pieces: &mut VecDeque<Option<Piece>>,
) {
    let (requests, _) = doorbell.parts_mut();
    for request in requests[list.from..list.to].iter_mut().filter(|request| request.at.node() == node) {
        let piece = pieces.pop_front().expect("every request under way has a place here");
        let Some(piece) = piece else { continue };
        match &mut request.op {
            Op::Read { into } => arena.copy_out(piece, into.words_mut()),
            Op::Cas { old, .. } | Op::MaskedCas { old, .. } | Op::Faa { old, .. } => {
                arena.copy_out(piece, std::slice::from_mut(old));
            }
            Op::Write { .. } => {}
        }
        arena.give(piece);
    }
}

/// Connects a queue pair to memory node `node`.
fn connect(
    ground: &Ground,
    reach: &Reach,
    node: NodeId,
    client: Option<ClientId>,
    number: u64,
) -> Result<Up, NoWay> {
    let device = &ground.device;
    let mut stream = reach.dial(node, client, number)?.stream;
    let region = RegionWords::from_words(control(&mut stream, Control::Region, [0; 4])?);
    let region = region
        .ok_or_else(|| NoWay::Lost("its card is of a kind that this program does not know".to_owned()))?;
    region.check_link(device).map_err(NoWay::Lost)?;
    region.check_promises(&ground.capabilities).map_err(|why| NoWay::Refused(Code::OtherPool, why))?;
    let here = |error: io::Error| NoWay::Here(format!("device {}: {}", device.name, with_remedy(&error, "")));
    let lost = |error: io::Error| NoWay::Lost(format!("device {}: {error}", device.name));
    let requests = REQUESTS.min(device.limits.queue_max).max(1);
    let sent = Completions::new(&device.context, requests, None).map_err(here)?;
    let with = |inline| {
        Pair::new(&PairSpec {
            domain: &device.domain,
            sent: &sent,
            received: &sent,
            receives: None,
            requests,
            inline,
            masked_cas: device.masked_cas,
        })
    };
    let less =
        |refused: io::Error| INLINE_BYTES_LESS.iter().find_map(|&inline| with(inline).ok()).ok_or(refused);
    let pair = with(INLINE_BYTES).or_else(less).map_err(here)?;
    let (first, reads) = (drawn(), device.limits.reads_out_max.clamp(1, READS_MAX));
    let mine = pair.endpoint(device, first, reads);
    let other = Endpoint::from_words(control(&mut stream, Control::Queue, mine.words())?);
    let other =
        other.ok_or_else(|| NoWay::Refused(Code::NoQueue, "it describes no queue pair".to_owned()))?;
    pair.receive_from(device, &other, 1).map_err(lost)?;
    pair.send(first, reads.min(other.reads)).map_err(lost)?;
    Ok(Up { pair, sent, stream, region, room: requests })
}
