//! The numbers on the wire: kinds of frames, codes of refusals, controls.

/// Declares enums that are encoded on the wire as a byte.
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
                /// Returns the variant of that number.
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

impl Control {
    /// Whether it changes nothing, so that a token for reading permits it.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::CountConnections | Self::Stat | Self::CountNodes | Self::NodeAddress)
    }

    /// The operation in the words of an error message.
    pub fn description(self) -> &'static str {
        match self {
            Self::Claim => "claim a slot of the client table (Claim)",
            Self::Identify => "take the identity of a client (Identify)",
            Self::CountConnections => "count the connections of a client (CountConnections)",
            Self::Fence => "fence a client (Fence)",
            Self::Form => "form a pool (Form)",
            Self::FinishForming => "complete a pool (FinishForming)",
            Self::Provision => "provision memory (Provision)",
            Self::Stat => "read counters (Stat)",
            Self::Region => "use an RDMA device (Region)",
            Self::ConnectQueuePair => "connect a queue pair (ConnectQueuePair)",
            Self::Cuts => "begin a cut (Cuts)",
            Self::ReturnToCut => "return to a cut (ReturnToCut)",
            Self::Grow => "give the memory node more memory (Grow)",
            Self::Extend => "add a memory node to the pool (Extend)",
            Self::CountNodes => "count the memory nodes (CountNodes)",
            Self::NodeAddress => "read the address of a memory node (NodeAddress)",
            Self::PrepareSnapshot => "prepare a snapshot (PrepareSnapshot)",
            Self::AimSnapshot => "choose the cut of a snapshot (AimSnapshot)",
            Self::TakeSnapshot => "take a snapshot (TakeSnapshot)",
            Self::UseSnapshot => "use a snapshot (UseSnapshot)",
            Self::SnapshotState => "examine a snapshot (SnapshotState)",
        }
    }
}

numbered! {
    /// The kind of a frame.
    pub enum FrameKind {
        /// The greeting of a compute node.
        Hello = 1,
        /// The memory node accepts the connection.
        Welcome = 2,
        /// The memory node refuses the connection.
        Refused = 3,
        /// Verbs.
        Request = 4,
        /// The answers to the verbs of a doorbell.
        Reply = 5,
        /// A verb could not be executed.
        Failed = 6,
        /// A request that is not a verb.
        Control = 7,
        /// The answer to a control.
        Answer = 8,
        /// The memory node is stopping.
        Goodbye = 9,
        /// The memory node requires a proof.
        Challenge = 10,
        /// The proof of a compute node.
        Proof = 11,
    }

    /// The reason why a verb, a control or a connection was refused.
    pub enum Code {
        /// The address is outside the node's memory, or belongs to another node.
        OutOfRange = 1,
        /// The address is not a multiple of eight.
        Misaligned = 2,
        /// The queue of immediates is full: the rest may be sent again.
        QueueFull = 3,
        /// The memory node has no memory for the pages.
        NoMemory = 4,
        /// The token is wrong or missing.
        BadToken = 5,
        /// The version of the wire differs.
        BadVersion = 6,
        /// The node belongs to another pool, or to none.
        WrongPool = 7,
        /// The identity was revoked.
        Revoked = 8,
        /// A live compute node has claimed the slot.
        SlotTaken = 9,
        /// The memory node's limit of connections is reached.
        TooManyConnections = 10,
        /// The frame is malformed or unexpected.
        Malformed = 11,
        /// The memory node is stopping.
        Stopping = 12,
        /// Verbs use another transport.
        WrongTransport = 13,
        /// A queue pair cannot be created.
        NoQueuePair = 14,
        /// A queue pair cannot be ended: its verbs may still execute.
        QueuePairStuck = 15,
        /// The token permits only reads.
        ReadOnly = 16,
        /// Another snapshot of the memory node exists.
        SnapshotBusy = 20,
        /// The snapshot has ended.
        SnapshotLost = 21,
    }

    /// Requests to a memory node that are not verbs. The words are their arguments, and those of the answer.
    pub enum Control {
        /// `[slot]`: claims the slot of the client table for this connection; refused as [`Code::SlotTaken`].
        Claim = 1,
        /// `[slot, epoch]`: gives this connection the identity of that client.
        Identify = 2,
        /// `[slot, epoch]` to `[number of its connections]`.
        CountConnections = 3,
        /// `[slot, epoch, by]`: fences that client; after the answer none of its verbs executes. `by` is
        /// [`FENCED_BY_ITSELF`](super::FENCED_BY_ITSELF) or 0; the log distinguishes them.
        Fence = 4,
        /// `[pool, node, nodes]`: makes the memory node that node of that pool, unless it is one already.
        Form = 5,
        /// The pool is complete: all its nodes are formed.
        FinishForming = 6,
        /// `[pointer, bytes]`: provisions host memory.
        Provision = 7,
        /// `[page]` to, by page, 0: `[resident bytes, connections, requests, verbs]`, 1: `[bytes of requests, bytes of
        /// replies, refused connections, connections closed for invalid frames]`, 2: the microseconds below which 50,
        /// 90, 99 and 100 % of all requests were served.
        Stat = 8,
        /// Returns the data that a compute node needs to access the memory through a device (module `rdma`); refused as
        /// [`Code::WrongTransport`] without a device.
        Region = 9,
        /// `[a queue pair]` to `[the queue pair connected to it]`, which belongs to this connection and ends
        /// with it.
        ConnectQueuePair = 10,
        /// Returns `[the oldest, the newest cut to which the memory can return, the cut of its last return]`; refused
        /// as [`Code::WrongPool`] without a log.
        Cuts = 11,
        /// `[cut, number, incarnation]`: returns the memory to the cut; later cuts have higher numbers than `number`.
        /// All other connections end. Refused as [`Code::WrongPool`] if the memory has another incarnation, or cannot
        /// return to the cut.
        ReturnToCut = 12,
        /// `[bytes]` to `[bytes]`: raises the limit of the host memory to that many bytes, unless it is higher; returns
        /// the limit.
        Grow = 13,
        /// `[nodes]` to `[nodes]`: the pool has that many memory nodes, unless it has more; returns their number.
        /// Earlier changes are durable, and before a cut that the answer has.
        Extend = 14,
        /// Returns `[the number of memory nodes in the pool]`.
        CountNodes = 15,
        /// `[node, page]`: returns 32 bytes of the entry of that memory node in the table of added memory nodes.
        NodeAddress = 16,
        /// `[number]` to `[cut]`: prepares a snapshot of that number, which ends with this connection; returns the
        /// cut of the memory node. Refused as [`Code::SnapshotBusy`] if there is another one.
        PrepareSnapshot = 20,
        /// `[number, cut]` to `[1]`: the memory node takes the snapshot when it enters that cut or a later one. `[0,
        /// its cut]`: it has entered such a cut already, so the sender chooses a higher one for all memory nodes.
        AimSnapshot = 21,
        /// `[number]`: enters the cut of the snapshot, and takes it, unless it was taken already.
        TakeSnapshot = 22,
        /// `[number]`: all later requests of this connection are executed in the snapshot.
        UseSnapshot = 23,
        /// `[number]` to `[bytes of its pages]`; refused as [`Code::SnapshotLost`] if it has ended.
        SnapshotState = 24,
    }
}
