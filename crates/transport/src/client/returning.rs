//! The return of a pool to a cut, after memory nodes have lost their last changes in a failure of their machines.
//!
//! The process that opens the pool drives it. If it ends before it has finished, the next one continues: a memory node
//! that has returned stays at its cut until all have returned to the same one.

use super::dial::{AcceptedConnection, control, control_within};
use super::error::{ConnectError, node_error};
use super::host_port::HostPort;
use crate::error::TcpError;
use crate::wire::{Control, Formation};
use std::time::Duration;

/// Longest time in which a memory node reads its checkpoint and its log again.
const RETURN_MAX: Duration = Duration::from_mins(10);

/// The cuts of a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeCuts {
    pub(crate) formed: Formation,
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
    /// The cut of its last return; 0: none.
    pub(crate) returned: u64,
}

/// The next step of a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnStep {
    /// All memory nodes have returned to the same cut.
    Finish,
    /// Those that have not returned yet return to this cut.
    To(u64),
    /// No cut is left that all memory nodes have: memory node `at` does not have the newest one of another.
    Impossible { at: usize, cut: u64 },
}

/// Whether a memory node is one of a pool that returns to a cut.
pub(crate) fn is_returning(formed: Formation) -> bool {
    matches!(formed, Formation::Lost | Formation::Returned)
}

/// Returns the memory nodes to a cut, as far as it is necessary. True: some have changed, so the caller connects again.
///
/// # Errors
/// A memory node does not answer, has no log, or does not have the cut.
pub(super) fn return_to_cut(
    nodes: &mut [AcceptedConnection],
    addresses: &[HostPort],
) -> Result<bool, TcpError> {
    let mut all = Vec::new();
    for (node, address) in nodes.iter_mut().zip(addresses) {
        let words = control(&mut node.stream, Control::Cuts, [0; 4]);
        let [oldest, newest, returned, _] = words.map_err(|why| node_error(address, why))?;
        all.push(NodeCuts { formed: node.welcome.formed, oldest, newest, returned });
    }
    let cut = match next_step(&all) {
        ReturnStep::Finish => return Ok(false),
        ReturnStep::To(cut) => cut,
        ReturnStep::Impossible { at, cut } => {
            let NodeCuts { oldest, newest, .. } = all[at];
            let why = format!(
                "its pool cannot return to a common state: another memory node has changes up to cut {cut} only, and \
                 this one can return to the cuts {oldest} to {newest}; restart all memory nodes with new files, and \
                 restore a dump"
            );
            let lost = ConnectError::Refused(crate::wire::Code::WrongPool, why);
            return Err(node_error(&addresses[at], lost));
        }
    };
    let number = all.iter().map(|cuts| cuts.newest).max().unwrap_or(cut);
    // Node 0 last: it decides which memory nodes the pool has, and a return to before an addition must not end without
    // the memory node that was added.
    let rest = nodes.iter_mut().zip(addresses).zip(&all).rev();
    for ((node, address), _) in rest.filter(|(_, cuts)| cuts.formed != Formation::Returned) {
        let words = [cut, number, node.welcome.incarnation, 0];
        control_within(&mut node.stream, Control::ReturnToCut, words, RETURN_MAX)
            .map_err(|why| node_error(address, why))?;
    }
    Ok(true)
}

/// The next step of a return, after the cuts of all memory nodes.
pub(crate) fn next_step(all: &[NodeCuts]) -> ReturnStep {
    let returned = all.iter().find(|cuts| cuts.formed == Formation::Returned).map(|cuts| cuts.returned);
    let is_there = |cuts: &NodeCuts| cuts.formed != Formation::Lost && Some(cuts.returned) == returned;
    if returned.is_some() && all.iter().all(is_there) {
        return ReturnStep::Finish;
    }
    let cut = returned.or_else(|| all.iter().map(|cuts| cuts.newest).min()).unwrap_or(0);
    match all.iter().position(|cuts| !(cuts.oldest..=cuts.newest).contains(&cut)) {
        Some(at) => ReturnStep::Impossible { at, cut },
        None => ReturnStep::To(cut),
    }
}

#[cfg(test)]
mod tests {
    use super::Formation::{Lost, Returned, Whole};
    use super::*;

    fn cuts(formed: Formation, [oldest, newest, returned]: [u64; 3]) -> NodeCuts {
        NodeCuts { formed, oldest, newest, returned }
    }

    #[test]
    fn a_pool_returns_to_the_newest_common_cut() {
        let all = [cuts(Whole, [3, 9, 0]), cuts(Lost, [1, 7, 0]), cuts(Whole, [7, 8, 0])];
        assert_eq!(next_step(&all), ReturnStep::To(7));
        let all = [cuts(Whole, [8, 9, 0]), cuts(Lost, [1, 7, 0])];
        assert_eq!(next_step(&all), ReturnStep::Impossible { at: 0, cut: 7 });
    }

    #[test]
    fn an_interrupted_return_is_continued() {
        let all = [cuts(Returned, [7, 7, 7]), cuts(Lost, [1, 8, 0]), cuts(Whole, [1, 9, 0])];
        assert_eq!(next_step(&all), ReturnStep::To(7));
        let all = [cuts(Returned, [7, 7, 7]), cuts(Returned, [7, 7, 7])];
        assert_eq!(next_step(&all), ReturnStep::Finish);
        // The first has been completed already; no client was attached since, because the second has not.
        let all = [cuts(Whole, [10, 12, 7]), cuts(Returned, [7, 7, 7])];
        assert_eq!(next_step(&all), ReturnStep::Finish);
        // The first has a return of before.
        let all = [cuts(Whole, [10, 12, 3]), cuts(Returned, [11, 11, 11])];
        assert_eq!(next_step(&all), ReturnStep::To(11));
    }
}
