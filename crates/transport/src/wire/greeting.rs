//! Greetings: how a connection begins.

use super::frame::put_frame;
use super::{Frame, Kind, MAGIC, Malformed, TOKEN_BYTES_MAX, VERSION};
use farwood_fabric::ClientId;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a compute node says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Identity of the pool; 0: whichever this is.
    pub pool: u64,
    /// Number of the memory node; [`ANY_NODE`](super::ANY_NODE): whichever this is.
    pub node: u16,
    /// Who is speaking, if it has a name.
    pub client: Option<ClientId>,
    /// Of connections with the same identity and line, the newest lives.
    pub line: u64,
    /// What shows that it may.
    pub token: Vec<u8>,
}

/// Hello as it goes over the wire, before the token.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HelloHead {
    magic: U64,
    version: U32,
    zero: U32,
    pool: U64,
    node: U16,
    named: U16,
    slot: U16,
    token_bytes: U16,
    epoch: U32,
    zero_too: U32,
    line: U64,
}

/// What is wrong with a hello or a welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It is none.
    Malformed(Malformed),
    /// It is one of another version.
    Version(u32),
}

impl From<Malformed> for Greeting {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Hello {
    /// Appends the frame. A token that is too long is cut, and thereby wrong.
    pub fn put(&self, out: &mut Vec<u8>) {
        let token = &self.token[..self.token.len().min(TOKEN_BYTES_MAX)];
        let client = self.client.unwrap_or(ClientId { slot: 0, epoch: 0 });
        let head = HelloHead {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            zero: U32::ZERO,
            pool: U64::new(self.pool),
            node: U16::new(self.node),
            named: U16::new(self.client.is_some().into()),
            slot: U16::new(client.slot),
            token_bytes: U16::new(token.len() as u16),
            epoch: U32::new(client.epoch),
            zero_too: U32::ZERO,
            line: U64::new(self.line),
        };
        let body = [head.as_bytes(), token].concat();
        put_frame(out, Kind::Hello, 0, 0, 0, &body);
    }

    /// Reads the body of the frame.
    ///
    /// # Errors
    /// [`Greeting`].
    pub fn read(frame: &Frame<'_>) -> Result<Self, Greeting> {
        if frame.kind != Kind::Hello {
            return Err(Malformed::Turn(frame.kind).into());
        }
        let (head, token) = HelloHead::ref_from_prefix(frame.body).map_err(|_| Malformed::Body)?;
        check_magic(head.magic, head.version)?;
        let token_bytes = usize::from(head.token_bytes.get());
        if token_bytes > TOKEN_BYTES_MAX || token_bytes.next_multiple_of(8) != token.len() {
            return Err(Malformed::Body.into());
        }
        let client = match head.named.get() {
            0 => None,
            1 => Some(ClientId { slot: head.slot.get(), epoch: head.epoch.get() }),
            _ => return Err(Malformed::Body.into()),
        };
        let (pool, node, line) = (head.pool.get(), head.node.get(), head.line.get());
        Ok(Self { pool, node, client, line, token: token[..token_bytes].to_vec() })
    }
}

fn check_magic(magic: U64, version: U32) -> Result<(), Greeting> {
    match (magic.get(), version.get()) {
        (MAGIC, VERSION) => Ok(()),
        (MAGIC, version) => Err(Greeting::Version(version)),
        (magic, _) => Err(Malformed::Magic(magic).into()),
    }
}

/// Whether a memory node belongs to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formed {
    /// Its memory is fresh.
    Blank,
    /// Some node of its pool may not know of the pool yet.
    Part,
    /// All nodes of its pool were formed.
    Whole,
}

/// What a memory node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Whether it belongs to a pool.
    pub formed: Formed,
    /// Identity of its pool, or 0.
    pub pool: u64,
    /// Its number, or 0.
    pub node: u16,
    /// Memory nodes of its pool, or 0.
    pub nodes: u16,
    /// Host memory, bytes.
    pub host_bytes: u64,
    /// Device memory, bytes.
    pub device_bytes: u64,
    /// Drawn for fresh memory, and for that which a crash left.
    pub incarnation: u64,
}

/// Welcome as it goes over the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WelcomeBody {
    magic: U64,
    version: U32,
    formed: U32,
    pool: U64,
    node: U16,
    nodes: U16,
    zero: U32,
    host_bytes: U64,
    device_bytes: U64,
    incarnation: U64,
}

impl Welcome {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let body = WelcomeBody {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            formed: U32::new(self.formed as u32),
            pool: U64::new(self.pool),
            node: U16::new(self.node),
            nodes: U16::new(self.nodes),
            zero: U32::ZERO,
            host_bytes: U64::new(self.host_bytes),
            device_bytes: U64::new(self.device_bytes),
            incarnation: U64::new(self.incarnation),
        };
        put_frame(out, Kind::Welcome, 0, 0, 0, body.as_bytes());
    }

    /// Reads the body of the frame.
    ///
    /// # Errors
    /// [`Greeting`].
    pub fn read(frame: &Frame<'_>) -> Result<Self, Greeting> {
        let body = WelcomeBody::ref_from_bytes(frame.body).map_err(|_| Malformed::Body)?;
        check_magic(body.magic, body.version)?;
        let formed = match body.formed.get() {
            0 => Formed::Blank,
            1 => Formed::Part,
            2 => Formed::Whole,
            _ => return Err(Malformed::Body.into()),
        };
        Ok(Self {
            formed,
            pool: body.pool.get(),
            node: body.node.get(),
            nodes: body.nodes.get(),
            host_bytes: body.host_bytes.get(),
            device_bytes: body.device_bytes.get(),
            incarnation: body.incarnation.get(),
        })
    }
}

const _: () = assert!(size_of::<HelloHead>() == 48);
const _: () = assert!(size_of::<WelcomeBody>() == 56);
