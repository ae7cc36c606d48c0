//! The membership of a memory node in a pool, and the return of the pool to a cut.

use super::{
    FENCES_BYTES, FORMED, HEADER_PAGE_BYTES, IN_USE, INCARNATION, NUMBERS, POOL, RETURNED, STATE, Store,
};
use crate::daemon::log::{CutPhase, CutSpan, Durability, Log};
use crate::random_number;
use crate::shm::Mapping;
use crate::wire::{Formation, LogKind};
use farwood_fabric::superblock::HEADER_OFFSET;
use farwood_fabric::{NodeId, PoolShape};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// The pool and the node number of a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Membership {
    /// Identity of the pool.
    pub(in crate::daemon) pool: u64,
    /// Number of the node.
    pub(in crate::daemon) node: u16,
    /// Memory nodes of the pool.
    pub(in crate::daemon) nodes: u16,
    /// The state of the pool's formation, as this node has recorded it.
    pub(in crate::daemon) formed: Formation,
}

pub(super) const NO_MEMBERSHIP: Membership =
    Membership { pool: 0, node: 0, nodes: 0, formed: Formation::Blank };

impl Store {
    /// Returns the pool and the node number.
    pub(in crate::daemon) fn membership(&self) -> Membership {
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that fresh memory belongs to that node of that pool, and writes its superblock. Repeating the same call
    /// succeeds.
    ///
    /// # Errors
    /// The reason, if it is another node already, or the numbers are invalid.
    pub(in crate::daemon) fn form(&self, pool: u64, node: u16, nodes: u16) -> Result<(), String> {
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        let is = *membership;
        if is.formed != Formation::Blank {
            // An interrupted growth may have given it more nodes.
            let same = (is.pool, is.node) == (pool, node) && is.nodes >= nodes;
            return if same {
                Ok(())
            } else {
                Err(format!("it is node {} of {} of another pool", is.node, is.nodes))
            };
        }
        let (host_bytes, device_bytes) = (self.host_bytes, self.device_bytes);
        let shape = PoolShape { pool, nodes, host_bytes, device_bytes };
        if node >= nodes || pool == 0 {
            return Err(format!("there is no node {node} of {nodes}"));
        }
        if let Some(why) = shape.refuse() {
            return Err(why);
        }
        for (offset, word) in PoolShape::first_words().chain(self.first_limit()) {
            self.change(offset, &word.to_le_bytes());
        }
        self.change(HEADER_OFFSET, &shape.header(NodeId(node)));
        *membership = Membership { pool, node, nodes, formed: Formation::Part };
        self.set_header_word(POOL, pool);
        self.set_header_word(NUMBERS, u64::from(node) | u64::from(nodes) << 16);
        self.set_header_word(FORMED, Formation::Part as u64);
        self.number.store(node.into(), Ordering::Release);
        self.has_early_locks.store(nodes == 1, Ordering::Release);
        if nodes > 1 {
            self.take_part_in_cuts();
        }
        self.sync_log()
    }

    /// Records that all nodes of the pool are formed, or have returned to a cut.
    pub(in crate::daemon) fn finish_forming(&self) -> Result<(), String> {
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        if membership.formed == Formation::Blank {
            return Err("it belongs to no pool".to_owned());
        }
        if membership.formed == Formation::Lost {
            return Err("its last changes are lost: its pool must return to a cut".to_owned());
        }
        if membership.formed != Formation::Whole {
            membership.formed = Formation::Whole;
            self.set_header_word(FORMED, Formation::Whole as u64);
            // Clients use the pool from now on, so it has a cut to which it can return.
            if let Some(log) = &self.log {
                log.begin_next_cut();
            }
            self.sync_log()?;
        }
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes the membership durable before its answer: other memory nodes rely on it.
    pub(super) fn sync_log(&self) -> Result<(), String> {
        self.log().map_or(Ok(()), Log::sync).map_err(|error| error.to_string())
    }

    /// Loads the membership from the header.
    pub(super) fn load_membership(&self) -> Result<(), String> {
        let (pool, numbers) = (self.header_word(POOL), self.header_word(NUMBERS));
        let formed = match self.header_word(FORMED) {
            0 => return Ok(()),
            1 => Formation::Part,
            2 => Formation::Whole,
            3 => Formation::Lost,
            4 => Formation::Returned,
            other => return Err(format!("its header is damaged: {other} is not a state of a pool")),
        };
        let (node, nodes) = (numbers as u16, (numbers >> 16) as u16);
        let (host_bytes, device_bytes) = (self.host_bytes, self.device_bytes);
        let is_shape = PoolShape { pool, nodes, host_bytes, device_bytes }.refuse().is_none();
        if pool == 0 || node >= nodes || numbers >> 32 != 0 || !is_shape {
            return Err(format!("its header is damaged: it names node {node} of {nodes} of pool {pool:#x}"));
        }
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner) =
            Membership { pool, node, nodes, formed };
        self.number.store(node.into(), Ordering::Release);
        self.has_early_locks.store(nodes == 1, Ordering::Release);
        Ok(())
    }

    /// Whether it begins cuts if its pool has several memory nodes.
    pub(in crate::daemon) fn has_cuts(&self) -> bool {
        self.log_kind() == LogKind::WithCuts
    }

    /// The kind of its log, which all memory nodes of a pool have.
    pub(in crate::daemon) fn log_kind(&self) -> LogKind {
        match self.log().map(Log::level) {
            None | Some(Durability::Orderly) => LogKind::Absent,
            Some(Durability::Interval(_)) => LogKind::WithCuts,
            Some(Durability::Always) => LogKind::Always,
        }
    }

    /// After a restart that may miss changes: if others of its pool may refer to them, the pool must return to a cut.
    pub(super) fn require_return(&self) {
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        if membership.nodes > 1 && membership.formed == Formation::Whole {
            membership.formed = Formation::Lost;
            self.set_header_word(FORMED, Formation::Lost as u64);
        }
    }

    /// After a restart in a pool of several memory nodes: takes part in its cuts, unless it must return to one first.
    pub(super) fn resume_cuts(&self) {
        let Membership { nodes, formed, .. } = self.membership();
        let is_open = !matches!(formed, Formation::Lost | Formation::Returned);
        self.is_open.store(is_open, Ordering::Release);
        match (formed, self.log()) {
            (Formation::Lost, Some(log)) => log.enter_cut_phase(CutPhase::Lost),
            _ if nodes > 1 => self.take_part_in_cuts(),
            _ => {}
        }
    }

    pub(super) fn take_part_in_cuts(&self) {
        if let Some(log) = self.log().filter(|_| self.has_cuts()) {
            log.enter_cut_phase(CutPhase::Active);
        }
    }

    /// Whether verbs execute.
    #[inline]
    pub(in crate::daemon) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// The cuts to which the memory can return.
    ///
    /// # Errors
    /// There is no log, or it has failed.
    pub(in crate::daemon) fn cut_span(&self) -> Result<CutSpan, String> {
        let log = self.log().ok_or("it has no log: it was started without --durability interval")?;
        if self.membership().formed == Formation::Returned {
            let cut = self.returned_cut();
            return Ok(CutSpan { oldest: cut, newest: cut });
        }
        log.cut_span().map_err(|error| error.to_string())
    }

    /// The cut of the last return; 0: none.
    pub(in crate::daemon) fn returned_cut(&self) -> u64 {
        self.header_word(RETURNED)
    }

    /// Refuses the verbs of all later requests, because the memory returns to `cut`, and continues after `number`.
    ///
    /// # Errors
    /// The memory has another incarnation, or cannot return to `cut`. Nothing has changed.
    pub(in crate::daemon) fn prepare_return(
        &self,
        [cut, number]: [u64; 2],
        incarnation: u64,
    ) -> Result<(), String> {
        let CutSpan { oldest, newest } = self.cut_span()?;
        if incarnation != self.incarnation() {
            return Err("another process has returned it to a cut".to_owned());
        }
        if self.membership().formed == Formation::Returned {
            return Err(format!("it has returned to cut {oldest}"));
        }
        if !(oldest..=newest).contains(&cut) {
            return Err(format!("it can return to the cuts {oldest} to {newest}, and not to {cut}"));
        }
        if !self.log().is_some_and(|log| log.can_resume_after(number)) {
            return Err(format!("the cut {number} is more than 100 years ahead of its clock"));
        }
        self.is_open.store(false, Ordering::Release);
        Ok(())
    }

    /// Returns the memory to `cut`; later cuts have higher numbers than `number`. No verb executes meanwhile. Clients
    /// of before cannot continue, so their fences are removed.
    ///
    /// # Errors
    /// The log has failed, and the memory node ends.
    pub(in crate::daemon) fn return_to_cut(&self, cut: u64, number: u64) -> Result<(), String> {
        let mut membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner);
        let log = self.log().ok_or("it has no log")?;
        self.snapshots.end_all("the pool has returned to a cut: repeat the dump");
        let header = self.host_bytes + self.device_bytes;
        let finish = |mapping: &Mapping| {
            let words = [(FORMED, Formation::Returned as u64), (STATE, IN_USE), (RETURNED, cut)];
            for (at, word) in words.into_iter().chain([(INCARNATION, random_number())]) {
                mapping.write_up(header + at, &word.to_le_bytes()).expect("the header is mapped");
            }
            let fences = vec![0; FENCES_BYTES as usize];
            mapping.write_up(header + HEADER_PAGE_BYTES, &fences).expect("the fences are mapped");
        };
        log.return_to([cut, number], &self.mapping, &self.file, finish).map_err(|fault| fault.to_string())?;
        membership.formed = Formation::Returned;
        Ok(())
    }
}
