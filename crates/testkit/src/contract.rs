//! The contract of every fabric, as named checks.
//!
//! A check is a function of a [`Harness`] that panics with the cause of a failure. [`contract`] runs all checks;
//! [`Contract::CHECKS`] lists them.

mod costs;
mod directories;
mod errors;
mod servers;
mod tables;
mod verbs;

use crate::harness::{Harness, RawAddress, Scratch, ServerHarness, raw_address};
use farwood_fabric::{Client, Memory, NodeId, write};
use std::marker::PhantomData;

/// A check and its name.
pub type Check<H> = (&'static str, fn(&H));

/// Lists check functions with their names.
macro_rules! named {
    ($($file:ident::$check:ident),* $(,)?) => {
        &[$((concat!(stringify!($file), "::", stringify!($check)), $file::$check::<H>)),*]
    };
}

/// The checks for the harness `H`.
pub struct Contract<H>(PhantomData<H>);

impl<H: Harness + 'static> Contract<H> {
    /// The checks for every fabric.
    pub const CHECKS: &'static [Check<H>] = named![
        verbs::a_read_returns_what_was_written,
        verbs::a_write_of_any_length_and_offset_leaves_its_neighbours_alone,
        verbs::the_last_bytes_of_a_memory_can_be_used,
        verbs::compare_and_swap_wins_and_loses,
        verbs::masked_compare_and_swap_keeps_to_its_masks,
        verbs::fetch_and_add_wraps,
        verbs::a_chain_executes_in_order,
        verbs::answers_come_in_the_order_of_the_verbs,
        verbs::posts_in_flight_together_keep_their_answers,
        verbs::a_cancelled_post_still_lands,
        verbs::detached_posts_land,
        verbs::buffers_bring_no_old_bytes,
        verbs::atomics_of_several_clients_lose_nothing,
        costs::every_verb_is_counted_once,
        costs::detached_posts_cost_no_round_trip,
        errors::verbs_out_of_range_are_refused_with_their_address,
        errors::corrupt_node_numbers_are_refused_with_their_address,
        errors::misaligned_atomics_are_refused_with_their_address,
        errors::a_client_works_after_an_error,
        errors::a_detached_failure_shows_at_the_next_post,
        tables::every_node_has_a_superblock,
        tables::compute_nodes_have_identities_of_their_own,
        tables::a_slot_is_reused_under_the_next_epoch,
        tables::one_of_several_clients_enters_a_slot,
        tables::a_live_client_is_not_revoked,
        tables::time_advances_and_sleeping_takes_time,
        tables::freed_chunks_are_taken_before_new_ones,
        tables::no_chunk_is_taken_twice,
        tables::a_full_node_has_no_chunk_until_one_is_given_back,
        directories::an_index_is_found_from_publication_to_retirement,
        directories::the_directory_lock_excludes,
        directories::a_name_is_given_once,
        directories::an_index_in_use_is_not_retired,
        directories::a_full_directory_is_an_error,
    ];
}

impl<H: ServerHarness + 'static> Contract<H> {
    /// The checks for fabrics whose memory nodes have servers.
    pub const SERVER_CHECKS: &'static [Check<H>] = named![
        servers::immediates_arrive_in_order_after_their_bytes,
        servers::clients_read_what_the_server_stored,
    ];
}

/// Runs every check.
pub fn contract<H: Harness + 'static>(harness: &H) {
    for (_, check) in Contract::<H>::CHECKS {
        check(harness);
    }
}

/// Runs every check for memory nodes with servers.
pub fn server_contract<H: ServerHarness + 'static>(harness: &H) {
    for (_, check) in Contract::<H>::SERVER_CHECKS {
        check(harness);
    }
}

/// Bytes of memory that a check gets.
const MEMORY_BYTES: usize = 8 << 10;

/// Runs a check once on host memory and once on device memory of each node, zeroed.
fn everywhere<H: Harness>(harness: &H, mut body: impl AsyncFnMut(&Client<H::Fabric>, RawAddress)) {
    harness.block_on(async {
        let client = harness.client();
        for node in (0..harness.shape().nodes).map(NodeId) {
            let scratch = Scratch::take(&client, node).await;
            body(&client, scratch.zeroed(&client, MEMORY_BYTES).await).await;
            scratch.release(&client).await;
            let device = raw_address(node, Memory::Device, 0);
            client.post(write(device, &[0; MEMORY_BYTES])).await.expect("a WRITE");
            body(&client, device).await;
        }
    });
}

/// Runs a check once, on zeroed host memory of node 0.
fn somewhere<H: Harness>(harness: &H, body: impl AsyncFnOnce(&Client<H::Fabric>, RawAddress)) {
    harness.block_on(async {
        let client = harness.client();
        let scratch = Scratch::take(&client, NodeId(0)).await;
        body(&client, scratch.zeroed(&client, MEMORY_BYTES).await).await;
        scratch.release(&client).await;
    });
}
