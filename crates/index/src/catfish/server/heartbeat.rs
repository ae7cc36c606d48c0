//! Heartbeats: the server reports its utilisation to its clients (Catfish §IV-A).
//!
//! Each client gets one heartbeat in an interval, and different clients get theirs at different times. If all got them
//! at the same time, all clients would begin to offload together, the server would be idle during their windows, and
//! the next heartbeat would report an idle server to all of them: no window would ever grow (decision 42).

use super::super::wire::heartbeat::{PARTS, heartbeat, next_pulse};
use super::notifier::IdleChecks;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, Remote, write};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

/// Writes heartbeats into the inboxes of clients, in a word outside the rings, so a full ring delays no heartbeat. [1
/// RT for each client in an interval] `inboxes` lists the connections that are due in a part of the interval; `None`:
/// the service has ended. `busy` yields the share of processor time since its last call. The server does not wait for
/// the WRITEs. While the last heartbeat of a client is in flight the next one is skipped, so a slow network does not
/// accumulate them. With [`IdleChecks::Rare`] and without clients, the call pauses for a whole interval, not for a
/// part.
///
/// # Errors
/// The errors of `inboxes`.
pub(super) async fn send_heartbeats<F: Fabric>(
    client: &Client<F>,
    (interval_ns, checks): (u64, IdleChecks),
    pulse: &AtomicU64,
    inboxes: impl Fn(usize) -> Result<Option<Vec<(usize, Remote<u64>)>>, IndexError>,
    mut busy: impl FnMut() -> f64,
) -> Result<(), IndexError> {
    let mut shares = [0.0; PARTS];
    let mut in_flight: [Vec<(usize, Pin<Box<_>>)>; PARTS] = std::array::from_fn(|_| Vec::new());
    // The number of parts in succession without a client.
    let mut empty = 0;
    for part in (0..PARTS).cycle() {
        let is_idle = empty >= PARTS && checks == IdleChecks::Rare;
        let steps = if is_idle { PARTS as u64 } else { 1 };
        client.fabric().sleep((interval_ns * steps / PARTS as u64).max(1)).await;
        let Some(inboxes) = inboxes(part)? else { break };
        if is_idle {
            // The share of a whole interval.
            shares.fill(busy());
        } else {
            shares[part] = busy();
        }
        empty = if inboxes.is_empty() { empty + 1 } else { 0 };
        // The utilisation of the whole interval that ends now.
        let beat = heartbeat(shares.iter().sum::<f64>() / PARTS as f64);
        pulse.store(next_pulse(pulse.load(Ordering::Relaxed), steps, beat), Ordering::Relaxed);
        let posts = &mut in_flight[part];
        drop_answered(posts).await;
        for (number, inbox) in inboxes {
            if posts.iter().all(|(other, _)| *other != number) {
                // The flow of the connection detects that the client's machine is unreachable.
                let post = async move { client.post(write(inbox, &beat.to_le_bytes())).await };
                posts.push((number, Box::pin(post)));
            }
        }
        drop_answered(posts).await;
    }
    Ok(())
}

/// Polls each post once, and drops those that are answered or have failed.
async fn drop_answered<T>(posts: &mut Vec<(usize, Pin<Box<impl Future<Output = T>>>)>) {
    poll_fn(|context| {
        posts.retain_mut(|(_, post)| post.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}
