//! Greetings: the first frame of each side.

use super::frame::put_frame;
use super::{Frame, FrameKind, MAGIC, Malformed, VERSION};
use crate::stream::{NONCE_BYTES, Nonce, Proof};
use farwood_fabric::{Access, ClientId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first frame of a compute node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Identity of the pool; 0: any.
    pub pool: u64,
    /// Number of the memory node; [`ANY_NODE`](super::ANY_NODE): any.
    pub node: u16,
    /// The identity of the client, if it has one.
    pub client: Option<ClientId>,
    /// Of several connections with the same identity and number, the newest is valid.
    pub connection_number: u64,
    /// The nonce of a client that has a token.
    pub nonce: Option<Nonce>,
}

/// A hello on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HelloBody {
    magic: U64,
    version: U32,
    zero: U32,
    pool: U64,
    node: U16,
    named: U16,
    slot: U16,
    has_token: U16,
    epoch: U32,
    zero_too: U32,
    connection_number: U64,
    nonce: Nonce,
}

/// The reason why a hello or a welcome is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingError {
    /// It is malformed.
    Malformed(Malformed),
    /// It has another version.
    Version(u32),
}

impl From<Malformed> for GreetingError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Hello {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let client = self.client.unwrap_or(ClientId { slot: 0, epoch: 0 });
        let body = HelloBody {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            zero: U32::ZERO,
            pool: U64::new(self.pool),
            node: U16::new(self.node),
            named: U16::new(self.client.is_some().into()),
            slot: U16::new(client.slot),
            has_token: U16::new(self.nonce.is_some().into()),
            epoch: U32::new(client.epoch),
            zero_too: U32::ZERO,
            connection_number: U64::new(self.connection_number),
            nonce: self.nonce.unwrap_or([0; NONCE_BYTES]),
        };
        put_frame(out, FrameKind::Hello, 0, 0, 0, body.as_bytes());
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`GreetingError`].
    pub fn read(frame: &Frame<'_>) -> Result<Self, GreetingError> {
        if frame.kind != FrameKind::Hello {
            return Err(Malformed::UnexpectedFrame(frame.kind).into());
        }
        check_version(frame)?;
        let head = HelloBody::ref_from_bytes(frame.body).map_err(|_| Malformed::Body)?;
        if head.zero != U32::ZERO || head.zero_too != U32::ZERO {
            return Err(Malformed::Body.into());
        }
        let nonce = match head.has_token.get() {
            0 if head.nonce == [0; NONCE_BYTES] => None,
            1 => Some(head.nonce),
            _ => return Err(Malformed::Body.into()),
        };
        let client = match head.named.get() {
            0 => None,
            1 => Some(ClientId { slot: head.slot.get(), epoch: head.epoch.get() }),
            _ => return Err(Malformed::Body.into()),
        };
        let (pool, node, connection_number) =
            (head.pool.get(), head.node.get(), head.connection_number.get());
        Ok(Self { pool, node, client, connection_number, nonce })
    }
}

/// The first fields of every greeting, of every version.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GreetingHead {
    magic: U64,
    version: U32,
}

/// Returns the nonce or the proof in the body of a challenge or a proof.
///
/// # Errors
/// [`Malformed::Body`].
pub fn nonce_of(frame: &Frame<'_>) -> Result<Nonce, Malformed> {
    frame.body.try_into().map_err(|_| Malformed::Body)
}

fn check_version(frame: &Frame<'_>) -> Result<(), GreetingError> {
    // Up to version 3, frames had no cut, so the magic is in its place.
    if frame.cut == MAGIC
        && let Ok((version, _)) = U32::ref_from_prefix(frame.body)
    {
        return Err(GreetingError::Version(version.get()));
    }
    let (head, _) = GreetingHead::ref_from_prefix(frame.body).map_err(|_| Malformed::Body)?;
    match (head.magic.get(), head.version.get()) {
        (MAGIC, VERSION) => Ok(()),
        (MAGIC, version) => Err(GreetingError::Version(version)),
        (magic, _) => Err(Malformed::Magic(magic).into()),
    }
}

/// The progress of the formation of a memory node's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formation {
    /// The memory of the node does not belong to a pool yet.
    Blank,
    /// Another node of its pool may not belong to the pool yet.
    Part,
    /// All nodes of its pool are formed.
    Whole,
    /// Its last changes are lost: the pool must return to a cut before it executes verbs again.
    Lost,
    /// It has returned to a cut, and waits until all nodes of its pool have.
    Returned,
}

/// The log of a memory node. Those of a pool have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// None.
    Absent,
    /// It begins cuts if its pool has several memory nodes.
    WithCuts,
    /// Answers follow the disk.
    Always,
}

impl LogKind {
    /// The level of durability, in words.
    pub fn description(self) -> &'static str {
        match self {
            Self::Absent => "no log",
            Self::WithCuts => "--durability interval",
            Self::Always => "--durability always",
        }
    }
}

/// The answer of a memory node to a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Whether it belongs to a pool.
    pub formed: Formation,
    /// Its log.
    pub log: LogKind,
    /// Identity of its pool, or 0.
    pub pool: u64,
    /// The number of the memory node in its pool, or 0.
    pub node: u16,
    /// Memory nodes of its pool, or 0.
    pub nodes: u16,
    /// Host memory, bytes.
    pub host_bytes: u64,
    /// Device memory, bytes.
    pub device_bytes: u64,
    /// Random for fresh memory, and renewed after a crash.
    pub incarnation: u64,
    /// What the client's token permits.
    pub access: Access,
    /// The proof that it knows the client's token, or zeros if it requires no token.
    pub proof: Proof,
}

/// A welcome on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WelcomeBody {
    magic: U64,
    version: U32,
    formed: U32,
    pool: U64,
    node: U16,
    nodes: U16,
    access: U32,
    host_bytes: U64,
    device_bytes: U64,
    incarnation: U64,
    proof: Proof,
}

impl Welcome {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let body = WelcomeBody {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            formed: U32::new(self.formed as u32 | (self.log as u32) << 8),
            pool: U64::new(self.pool),
            node: U16::new(self.node),
            nodes: U16::new(self.nodes),
            access: U32::new(u32::from(self.access == Access::ReadOnly)),
            host_bytes: U64::new(self.host_bytes),
            device_bytes: U64::new(self.device_bytes),
            incarnation: U64::new(self.incarnation),
            proof: self.proof,
        };
        put_frame(out, FrameKind::Welcome, 0, 0, 0, body.as_bytes());
    }

    /// Decodes the frame.
    ///
    /// # Errors
    /// [`GreetingError`].
    pub fn read(frame: &Frame<'_>) -> Result<Self, GreetingError> {
        check_version(frame)?;
        let body = WelcomeBody::ref_from_bytes(frame.body).map_err(|_| Malformed::Body)?;
        let access = match body.access.get() {
            0 => Access::ReadWrite,
            1 => Access::ReadOnly,
            _ => return Err(Malformed::Body.into()),
        };
        let (state, log) = (body.formed.get() & 0xFF, body.formed.get() >> 8);
        let formed = match state {
            0 => Formation::Blank,
            1 => Formation::Part,
            2 => Formation::Whole,
            3 => Formation::Lost,
            4 => Formation::Returned,
            _ => return Err(Malformed::Body.into()),
        };
        let log = match log {
            0 => LogKind::Absent,
            1 => LogKind::WithCuts,
            2 => LogKind::Always,
            _ => return Err(Malformed::Body.into()),
        };
        Ok(Self {
            formed,
            log,
            pool: body.pool.get(),
            node: body.node.get(),
            nodes: body.nodes.get(),
            host_bytes: body.host_bytes.get(),
            device_bytes: body.device_bytes.get(),
            incarnation: body.incarnation.get(),
            access,
            proof: body.proof,
        })
    }
}

const _: () = assert!(size_of::<HelloBody>() == 80);
const _: () = assert!(size_of::<WelcomeBody>() == 88);
