//! The numbers of the wire: kinds of frames, reasons, controls.

/// Enums that go over the wire as a byte, counted from 1 without a gap.
macro_rules! numbered {
    ($($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(u8)]
            pub enum $name {
                $($(#[$variant_doc])* $variant = $number,)*
            }

            impl $name {
                /// The one of that number.
                pub fn from_byte(byte: u8) -> Option<Self> {
                    match byte {
                        $($number => Some(Self::$variant),)*
                        _ => None,
                    }
                }
            }
        )*
    };
}

numbered! {
    /// What a frame is.
    pub enum Kind {
        /// A compute node introduces itself.
        Hello = 1,
        /// A memory node lets it in.
        Welcome = 2,
        /// A memory node does not let it in.
        Refused = 3,
        /// Verbs.
        Request = 4,
        /// Their answers.
        Reply = 5,
        /// One of them could not be executed.
        Failed = 6,
        /// Something that is no verb.
        Control = 7,
        /// What came of it.
        Answer = 8,
        /// The memory node stops.
        Goodbye = 9,
    }

    /// Why a verb, a control or a connection was refused.
    pub enum Code {
        /// Outside the node's memory, or another node's.
        OutOfRange = 1,
        /// Not a multiple of eight.
        Misaligned = 2,
        /// The queue of immediates is full: the rest may be sent again.
        QueueFull = 3,
        /// No memory behind the promise.
        NoMemory = 4,
        /// The token is wrong, or missing.
        BadToken = 5,
        /// Another version of the wire.
        BadVersion = 6,
        /// Another pool than was asked for, or none.
        OtherPool = 7,
        /// The identity was revoked.
        Revoked = 8,
        /// The slot is claimed by a living compute node.
        Taken = 9,
        /// As many connections as the memory node takes.
        Crowded = 10,
        /// No frame, or one out of its turn.
        Malformed = 11,
        /// The memory node stops.
        Stopping = 12,
        /// Its verbs go over another fabric.
        OtherFabric = 13,
        /// A queue pair cannot be made.
        NoQueue = 14,
        /// A queue pair cannot be ended: something of it may still land.
        NotEnded = 15,
    }

    /// What is asked of a memory node besides verbs. The words of each are its arguments, and those of its answer.
    pub enum Control {
        /// `[slot]`: this connection wants the slot of the client table; refused as [`Code::Taken`].
        Claim = 1,
        /// `[slot, epoch]`: this connection is that compute node's from now on.
        Name = 2,
        /// `[slot, epoch]` to `[connections of it]`.
        Census = 3,
        /// `[slot, epoch]`: nothing of that compute node lands any more when this is answered.
        Fence = 4,
        /// `[pool, node, nodes]`: become that node of that pool, unless it is one already.
        Form = 5,
        /// The pool is whole: all its nodes were formed.
        Whole = 6,
        /// `[pointer, bytes]`: make host memory real.
        Provision = 7,
        /// `[page]` to, by page, 0: `[bytes that have pages, connections, requests, verbs]`, 1: `[bytes of requests,
        /// bytes of replies, connections refused, closed for what they sent]`, 2: the microseconds below which 50,
        /// 90, 99 and 100 % of all requests were served.
        Stat = 8,
        /// What a compute node must know to reach the memory through a card ([`rdma`](crate::rdma)); refused as
        /// [`Code::OtherFabric`] where none executes the verbs.
        Region = 9,
        /// `[a queue pair]` to `[the one that was connected to it]`: it is this connection's, and ends with it.
        Queue = 10,
    }
}
